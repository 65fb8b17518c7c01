"""A need -> one Combination of machine and GPUs, and the rules that say why another cannot be.

combination.py    a machine with its GPUs: sizes, price, quota, the network between its GPUs
search.py         the one search: what meets a need, cheapest first; the nearest to what cannot be had
machine_rules.py  the rules with their ids; a problem, and the error that carries it
compatibility.py  whether machine, accelerator and count go together
tpu_rules.py      TPUs: whether machine, topology and region go together
provisioning.py   whether a machine is offered with a strategy, in a region, within default quotas
refusal.py        why nothing meets a need, and where else there may be capacity
plain.py          what a plain pipeline step gets for its limits
job_fields.py     boot disk, reservation, timeout, waiting; what sets each published field of a custom job
job_options.py    what a custom job may have besides its machines: TensorBoard, a shell, private networks
request_parts.py  a rung of a ladder, a size, BigQuery and Dataflow, a command of the user's own
step_request.py   what a step may ask for in pipelines.toml
placing.py        request -> placement: which combination it gets, and why
placement.py      the placement: worker pools, scheduling, resources, the most that it can cost
placed_ladder.py  a ladder: its rungs placed
dearest.py        the dearest way up a ladder
ladder_proposal.py  a ladder proposed for a need, a budget and a deadline"""
