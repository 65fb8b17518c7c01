"""The launcher of a step whose capacity is a ladder: it climbs it inside the run, one working job at a time.

It is a program, the container of that step on Vertex AI:

    python3 -m vgp.launch.capacity --plan JSON [--size NAME] --executor_input JSON

step_run.py       which step of which run this is, told from the executor input
climb.py          what is done next, from the journal alone, until the work is done or cannot be
attempt.py        one attempt: intention, creation, following, end
probes.py         probes: small jobs that see whether there is Spot while an attempt works on demand
probe_body.py     the job of a probe
verdict.py        how the step ends, if it does
run_state.py      whether the run goes on, when the launcher is told to end
sweep.py          jobs of the step that nobody follows
policy.py         which rung is next: pure functions
prospect.py       what follows from a situation: prices of work, the net, the slack
choice.py         what a choice of a rung depends on, and the choice
situation.py      what the policy goes by, from plan, journal and progress
measured.py       how long steps, starts and saves take, as jobs have told
journal.py        ladder.json, by compare-and-swap, in the term of one launcher
heartbeat.py      heartbeat.json: which attempt may run, and that its launcher lives
progress.py       progress.json: how far the work is, as the job tells it
jobs.py           the custom jobs of one step in all regions of its ladder
outcome.py        how a job ended: by a lack of capacity, or by what no other machine would mend
in_vain.py        attempts in a row that had machines and saved nothing
last_words.py     the last lines that the program of a job wrote
gcp_resources.py  the output by which the console leads to the job of the moment
patience.py       calls that outlast an outage
errors.py         what ends a launcher before its job has ended"""
