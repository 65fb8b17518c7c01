"""The launcher of a step whose capacity is a ladder: it climbs it inside the run, one working job at a time.

It is a program, the container of that step on Vertex AI:

    python3 -m vgp.launch.capacity --plan JSON [--size NAME] --executor_input JSON

step_run.py       which step of which run this is, told from the executor input; whether that run goes on
climb.py          what is done next, from the journal alone, until the work is done or cannot be
attempt.py        one attempt: intention, creation, following, end; the output that leads to its job
next_job.py       the job that waits for Spot machines beside an attempt on demand, and takes over when it has them
verdict.py        how the step ends, if it does: attempts in vain, the last lines of a job
policy.py         which rung is next: pure functions
prospect.py       what a choice depends on, and what follows: prices of work, the net, the slack
situation.py      what the policy goes by, from plan, journal and progress
journal.py        ladder.json, by compare-and-swap, in the term of one launcher; heartbeat.json: which attempt may run
jobs.py           the custom jobs of one step in all regions of its ladder, also those that nobody follows
outcome.py        how a job ended: by a lack of capacity, or by what no other machine would mend
patience.py       calls that outlast an outage; what ends a launcher before its job has ended"""
