"""A need -> one Combination of machine and GPUs, and the rules that say why another cannot be.

combination.py    a machine with its GPUs: sizes, price, quota
script.py         a command of the user's own: its words, how it is started, parameter servers
search.py         the one search: what meets a need, cheapest first
tpus.py           TPUs: whether machine, topology and region go together
refusal.py        why nothing meets a need
nearest.py        the nearest that works, for a wrong name or combination
alternatives.py   where else, or with which GPUs, there may be capacity
rules.py          the rules with their ids; a problem, and the error that carries it
compatibility.py  whether machine, accelerator and count go together
provisioning.py   whether a machine is offered with a strategy, and in a region
quota.py          whether default quotas suffice
job_fields.py     boot disk, reservation, timeout, waiting
job_options.py    what a custom job may have besides its machines: TensorBoard, a shell, private networks
resource_names.py  names of a persistent resource, a TensorBoard, a network attachment
custom_job_fields.py  every published field of a custom job, and what sets it
plain.py          what a plain pipeline step gets for its limits
quantities.py     4, 500m, 16Gi: limits of plain steps as numbers
rung.py           one rung of a ladder, as pipelines.toml has it
request.py        what a step may ask for in pipelines.toml
engines.py        what a step that prepares data may use: BigQuery, Dataflow, memory
sizes.py          several sizes of one step, of which a run takes one
choice.py         which combination a request gets, and why
place.py          request -> placement
ladder.py         a ladder: its rungs placed
dearest.py        the dearest way up a ladder
proposal.py       a ladder proposed for a need, a budget and a deadline
network.py        what Google's page wants for the network between GPUs
placement.py      the placement: worker pools, scheduling, resources, the most that it can cost"""
