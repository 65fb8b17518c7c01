"""A workflow -> the spec that Vertex AI runs.

compile.py      workflows compiled for Vertex AI, checked, read strictly, written, and compared
workflow_files.py  the workflows of a repository: found, imported, compiled, asked to check a request
placing.py      the steps of a workflow on their machines, while its file is imported; mail as an exit task
compile_target.py  where a workflow is compiled for: the interface, this machine, the engines of a step
vertex.py       Vertex AI as the target: every step gets its machine
entrypoint.py   the command of a step, which passes SIGTERM on; the fields of a custom job in Google's wrapper
script_step.py  a command of the user's own in place of a step's Python, started by a text that is one program
capacity.py     a step with a ladder: the step that climbs it, its base image, and its plan
sizes.py        the parameter by which a run chooses the size of a step
spec_cache.py   specs of the sources as they are, without kfp in this process
source_commit.py  the commit of the repository's code, if the code is what was committed"""
