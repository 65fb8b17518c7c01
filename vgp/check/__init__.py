"""Any document -> findings: what Vertex AI would refuse, named before it is asked.

api_object.py     an object of the API: job, tuning, prediction, deployment, pools
checker.py        files in, a report out
folder_comparison.py  what two folders ask for, side by side, also as Markdown
cost_bound.py     what a run can cost at most
custom_job.py     a CustomJobSpec: its pools together, reduction servers
executor.py       what a task runs: custom job, launcher, ladder, plain container
check_finding.py  findings, and rows of machines
fix.py            the nearest that works, written into files
image_names.py    what the names of images tell
job_extras.py     what a job has besides machines: a shell, TensorBoard, private networks
judgement.py      the collector that the judges write to, and their reader of fields
document_kinds.py  which kind a document is, and its judge
legacy.py         trainingInput of AI Platform
machine_spec.py   machine, accelerator and count
pipeline.py       a compiled pipeline: every task
plain_step.py     the resources of a plain step
check_report.py   findings, steps, exit code; as text, JSON and SARIF
persistent_resource.py  machines that stay, and the pipelines that run on them
services.py       what a step may use besides its machine
task_inputs.py    what reaches the inputs of a task, and the job in a launcher's arguments
terms.py          strategy, regions, durations and price of a job
worker_pool.py    one worker pool: machine, disk, reservation, and what it runs
convert/   any GPU request -> settings or a job of this library
sources/   programs, notebooks, shell and Terraform -> the requests in them
spec/      a compiled pipeline: parameters, conditions, caches, differences"""
