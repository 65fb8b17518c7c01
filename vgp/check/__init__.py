"""Any document -> findings: what Vertex AI would refuse, named before it is asked.

api_object.py     an object of the API: job, tuning, prediction, deployment, pools
check.py          files in, a report out
comparison.py     what two folders ask for, side by side
cost.py           what a run can cost at most
custom_job.py     a CustomJobSpec: its pools together
executor.py       what a task runs: custom job, launcher, plain container
fields.py         typed reading of fields
finding.py        findings, and rows of machines
fix.py            the nearest that works, written into files
images.py         what the names of images tell
inputs.py         what reaches the inputs of a task
job_options.py    what a job has besides machines: a shell, TensorBoard, private networks
job_terms.py      strategy, regions and durations of a job
judgement.py      the collector that the judges write to
kinds.py          which kind a document is, and its judge
ladder.py         the rungs in the plan of a step that climbs
launcher_job.py   the job in a launcher's arguments
legacy.py         trainingInput of AI Platform
machine_spec.py   machine, accelerator and count
markdown.py       two folders as a table for a comment
offer.py          region rules and the price
pipeline.py       a compiled pipeline: every task
plain_step.py     the resources of a plain step
pool_body.py      what a worker pool runs
reduction_server.py  reduction servers that the workers may not use
remote_runner.py  steps that call the SDK by its method's name
report.py         findings, steps, exit code
resource_pools.py the machines of a persistent resource
runtime.py       the persistent resource that a pipeline's job names for its steps
sarif.py          a report for code hosts
services.py       what a step may use besides its machine
serving.py        machines of predictions
text.py           findings as people read them
worker_pool.py    one worker pool: machine, disk, reservation
convert/   any GPU request -> settings or a job of this library
sources/   programs, notebooks, shell and Terraform -> the requests in them
spec/      a compiled pipeline: parameters, conditions, caches, differences"""
