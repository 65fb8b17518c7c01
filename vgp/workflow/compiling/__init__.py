"""A workflow -> the spec that Vertex AI runs.

base_image.py   what the Dockerfile builds on
capacity.py     a step with a ladder: the step that climbs it, and its plan
commit.py       the commit of the repository's code, if the code is what was committed
compact.py      a program without its docstrings and comments
compile.py      workflows compiled for Vertex AI, checked and written
described.py    the process that compiles for spec_cache.py
difference.py   two specs compared, with their machines
email.py        Google's e-mail component as an exit task
engines.py      what a step is told that it may use to prepare data
entrypoint.py   the command of a step, which passes SIGTERM on
job_fields.py   the fields of a custom job in Google's wrapper
joined.py       a package as one program
script.py       a command of the user's own in place of a step's Python
spec_cache.py   specs of the sources as they are, without kfp
sizes.py        the parameter by which a run chooses the size of a step
placing.py      the steps of a workflow on their machines, while its file is imported
target.py       where a workflow is compiled for: the interface, and this machine
vertex.py       Vertex AI as the target: every step gets its machine
workflows.py    the workflows of a repository: found, imported, compiled, asked to check a request
strict_spec.py   the strictest reading: unknown fields and dangling names are errors"""
