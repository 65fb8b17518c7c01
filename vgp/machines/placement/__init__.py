"""Finds one Combination of machine and GPUs for a need; rules explain why another is impossible.

combination.py    a machine with its GPUs: sizes, price, quota, the network between its GPUs
search.py         the one search: machines for a need, cheapest first; the nearest to an impossible request
machine_rules.py  the rules with their ids; a problem, and the error that carries it
compatibility.py  whether machine, accelerator and count go together
tpu_rules.py      TPUs: whether machine, topology and region go together
provisioning.py   whether a machine is offered with a strategy, in a region, within default quotas
refusal.py        why nothing meets a need, and where else there may be capacity
plain.py          the machine that a plain pipeline step gets for its limits
job_fields.py     boot disk, reservation, timeout, waiting; the setting behind each field of a custom job
job_options.py    the options of a custom job besides its machines: TensorBoard, a shell, private networks
request_parts.py  a rung of a ladder, a size, BigQuery and Dataflow, a command of the user's own
step_request.py   the requests that a step of pipelines.toml accepts
placing.py        request -> placement: the combination, and the reason for it
placement.py      the placement: worker pools, scheduling, resources, its maximum cost
placed_ladder.py  a ladder: its rungs placed
dearest.py        the most expensive course of a ladder
spot_advice.py    Compute Engine's advice on Spot machines, as a rank of a region
ladder_proposal.py  a ladder proposed for a need, a budget and a deadline"""
