"""Compiled pipelines: what a spec says, and what it takes.

arguments.py            the arguments of a run, checked against the parameters
caching.py              whether steps take results of earlier runs
conditions.py           trigger conditions, evaluated without `eval`
dag.py                  tasks, and the components that they run
spec_engines.py         what the steps of a spec may use to prepare data
spec_difference.py      two specs compared, as a person would tell it
spec_ladder.py          the plan of a step with a ladder: read, its training container, its sizes
ladder_inputs.py        whether each launcher of a run is given something of its own
parameters.py           a parameter: type, default, the values that it takes
pipeline_spec.py        PipelineSpec: a spec, read once; its textual form, and other defaults
container_settings.py   what containers are told: a command of the user's own, and its arguments
step_difference.py      the parts of a step that are compared, with its ladder and its inputs"""
