"""Converts a request for a training job into another form, with a note on the result of each field.

any_request.py    a file, standard input or a gcloud line as a job, whether it would run, the nearest machines
request_source.py  the request to convert, from a line, a file of data, a program or a script
conversion.py     a job of Vertex AI in whatever form it was written, and the account of it
legacy_job.py     a trainingInput as a custom job or a tuning job
legacy_pools.py   a legacy file while it is converted, and its machines as worker pools
sdk_program.py    a job as a program with Google's SDK
step_job.py       a step of pipelines.toml as a job or a Compute Engine machine"""
