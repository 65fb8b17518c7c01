"""Checks any document for what Vertex AI would refuse, before anything is submitted.

api_object.py         an object of the API: job, tuning, prediction, deployment, pools
check_finding.py      findings, and rows of machines
check_report.py       findings, steps, exit code; as text, JSON and SARIF
checker.py            files in, a report out
container_facts.py    a container's image by its name (GPU support, registry), and the services that it may use
cost_bound.py         the maximum cost of a run
custom_job.py         a CustomJobSpec: its pools together, reduction servers
document_kinds.py     the kind of a file and of a document, and the function that judges it
executor.py           the program of a task: custom job, launcher, ladder, plain container
fix.py                writes the nearest working values into files
folder_comparison.py  compares the requests of two folders, also as Markdown
judgement.py          the collector that the judges write to, and their reader of fields
legacy.py             trainingInput of AI Platform
machine_spec.py       machine, accelerator and count
nested_requests.py    requests deep inside documents of other kinds
pipeline.py           a compiled pipeline: every task, and the persistent resource of its run
plain_step.py         the resources of a plain step
task_inputs.py        the values of a task's inputs, and the job in a launcher's arguments
terms.py              strategy, regions, durations and price of a job; its shell, TensorBoard and networks
worker_pool.py        one pool of a job or of a persistent resource: machine, disk, reservation, container
convert/   any GPU request -> settings or a job of this library
sources/   programs, notebooks, shell and Terraform -> the requests in them
spec/      a compiled pipeline: parameters, conditions, caches, differences"""
