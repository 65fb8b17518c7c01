"""Compiled pipelines: what a spec says, and what it takes.

pipeline_spec.py        PipelineSpec: a spec, read once; its textual form, other defaults, its cache
dag.py                  tasks, the components that they run, and trigger conditions, evaluated without `eval`
parameters.py           a parameter: type, default, values; the arguments of a run, checked against them
container_settings.py   a command of the user's own in a container, and its arguments
spec_ladder.py          the plan of a step with a ladder: its containers, its sizes, and the inputs of each launcher
spec_difference.py      two specs compared, as a person would tell it
step_difference.py      the parts of a step that are compared, with its ladder and its inputs"""
