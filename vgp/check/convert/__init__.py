"""Any request for a training job -> another form of it, with an account of what each field became.

conversion.py     a job, and the account of it
convert.py        any document as a job, and whether that would run
job_body.py       a job of Vertex AI in whatever form it was written
legacy_input.py   a legacy file while it is converted
legacy_job.py     a trainingInput as a custom job or a tuning job
legacy_pools.py   its machines as worker pools
nearest.py        the nearest machines for those that are gone
python_text.py    data as Python text
sdk_program.py    a job as a program with Google's SDK
source.py         a file, standard input or a gcloud line
steps.py          a step of pipelines.toml as a job or a Compute Engine machine
tuning.py         legacy hyperparameters as a studySpec
vm_command.py     a placement as `gcloud compute instances create`"""
