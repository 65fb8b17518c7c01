"""Reads compiled pipelines: their content, and the arguments that they accept.

pipeline_spec.py        PipelineSpec: a spec, read once; its textual form, other defaults, its cache
dag.py                  tasks, the components that they run, and trigger conditions, evaluated without `eval`
parameters.py           a parameter: type, default, values; the arguments of a run, checked against them
container_settings.py   a user's command in a container, and its arguments
spec_ladder.py          the plan of a step with a ladder: its containers, its sizes, and the inputs of each launcher
spec_difference.py      two specs compared, in readable terms
step_difference.py      the parts of a step that are compared, with its ladder and its inputs"""
