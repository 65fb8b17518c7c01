"""Compiles a workflow to the spec that Vertex AI runs.

compile.py      compiles workflows for Vertex AI, checks, writes and compares their specs
workflow_files.py  finds, imports and compiles the workflows of a repository, and calls their checks
placing.py      places the steps of a workflow on machines while its file is imported; adds mail as an exit task
compile_target.py  the interface of a target, the target for this machine, and the engines of a step
vertex.py       the target for Vertex AI, which gives every step its machine
entrypoint.py   builds the command of a step, which forwards SIGTERM, and the fields of a custom job
script_step.py  replaces a step's Python by the user's own command
capacity.py     builds the step that climbs a capacity ladder, and its plan
sizes.py        adds the parameter by which a run chooses the size of a step
spec_cache.py   caches specs, so that commands that only read them do not import kfp
source_commit.py  reads the git commit of the repository's code"""
