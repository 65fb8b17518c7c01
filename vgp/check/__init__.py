"""Any document -> findings: what Vertex AI would refuse, named before it is asked.

api_object.py         an object of the API: job, tuning, prediction, deployment, pools
check_finding.py      findings, and rows of machines
check_report.py       findings, steps, exit code; as text, JSON and SARIF
checker.py            files in, a report out
container_facts.py    a container's image by its name (GPU support, registry), and the services that it may use
cost_bound.py         what a run can cost at most
custom_job.py         a CustomJobSpec: its pools together, reduction servers
document_kinds.py     which kind a file or a document is, and its judge
executor.py           what a task runs: custom job, launcher, ladder, plain container
fix.py                the nearest that works, written into files
folder_comparison.py  what two folders ask for, side by side, also as Markdown
judgement.py          the collector that the judges write to, and their reader of fields
legacy.py             trainingInput of AI Platform
machine_spec.py       machine, accelerator and count
pipeline.py           a compiled pipeline: every task, and the persistent resource of its run
plain_step.py         the resources of a plain step
task_inputs.py        what reaches the inputs of a task, and the job in a launcher's arguments
terms.py              strategy, regions, durations and price of a job; its shell, TensorBoard and networks
worker_pool.py        one pool of a job or of a persistent resource: machine, disk, reservation, and what it runs
convert/   any GPU request -> settings or a job of this library
sources/   programs, notebooks, shell and Terraform -> the requests in them
spec/      a compiled pipeline: parameters, conditions, caches, differences"""
