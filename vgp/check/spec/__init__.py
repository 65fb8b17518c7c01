"""Compiled pipelines: what a spec says, and what it takes.

arguments.py            the arguments of a run, checked against the parameters
caching.py              whether steps take results of earlier runs
conditions.py           trigger conditions, evaluated without `eval`
dag.py                  tasks, and the components that they run
defaults.py             the defaults of parameters, changed
difference.py           two specs compared, as a person would tell it
engines.py              what the steps of a spec may use to prepare data
flow.py                 how tasks hang together, and what the workflow gives to them
ladder.py               the plan of a step with a ladder: read, and its training container
ladder_difference.py    two ladders compared, rung by rung
ladder_inputs.py        whether each launcher of a run is given something of its own
leaves.py               JSON values leaf by leaf
parameters.py           a parameter: type, default, the values that it takes
pipeline_spec.py        PipelineSpec: a spec, read once
script.py               a command of the user's own in a spec: written and read
script_arguments.py     parameters that a command does not take
sizes.py                the sizes of a step, and the parameter that chooses one
step_difference.py      the parts of a step that are compared
text.py                 the one textual form"""
