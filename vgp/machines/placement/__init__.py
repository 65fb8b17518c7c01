"""A need -> one Combination of machine and GPUs, and the rules that say why another cannot be.

combination.py    a machine with its GPUs: sizes, price, quota
script_command.py  a command of the user's own: its words, how it is started, parameter servers
search.py         the one search: what meets a need, cheapest first
tpu_rules.py      TPUs: whether machine, topology and region go together
refusal.py        why nothing meets a need, and where else there may be capacity
nearest_machine.py  the nearest that works, for a wrong name or combination
machine_rules.py  the rules with their ids; a problem, and the error that carries it
compatibility.py  whether machine, accelerator and count go together
provisioning.py   whether a machine is offered with a strategy, in a region, within default quotas
job_fields.py     boot disk, reservation, timeout, waiting
job_options.py    what a custom job may have besides its machines: TensorBoard, a shell, private networks
custom_job_fields.py  every published field of a custom job, and what sets it
plain.py          what a plain pipeline step gets for its limits
rung.py           one rung of a ladder and one size of a step, as pipelines.toml has them
step_request.py   what a step may ask for in pipelines.toml
engine_request.py  what a step that prepares data may use: BigQuery, Dataflow, memory
machine_choice.py  which combination a request gets, and why
placing.py        request -> placement
placed_ladder.py  a ladder: its rungs placed
dearest.py        the dearest way up a ladder
ladder_proposal.py  a ladder proposed for a need, a budget and a deadline
gpu_network.py    what Google's page wants for the network between GPUs
placement.py      the placement: worker pools, scheduling, resources, the most that it can cost"""
