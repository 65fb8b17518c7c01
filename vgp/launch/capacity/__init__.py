"""The launcher of a step with a capacity ladder: creates one working job at a time, on one rung after another.

It is the program in the step's container on Vertex AI:

    python3 -m vgp.launch.capacity --plan JSON [--size NAME] --executor_input JSON

step_run.py       the run and step, read from the executor input; whether that run is still active
launcher_loop.py  the main loop: reads the journal and takes the next action, until the step ends
attempt.py        one attempt, from its journal entry to its end; the output `gcp_resources`
waiting_job.py    the job that waits for Spot machines while an attempt runs on demand, then replaces it
verdict.py        the exit code and message of the step; futile attempts; the last log lines of a job
policy.py         the choice of the next rung: pure functions
prospect.py       the input of a choice and its derived figures: price of work, net, slack
situation.py      the policy's input, from plan, journal and progress
journal.py        ladder.json, written by compare-and-swap; heartbeat.json, which names the attempt that may run
jobs.py           the custom jobs of one step in all regions of its ladder; cancels orphaned jobs
outcome.py        how a job ended: lack of capacity, or an error that another machine would not fix
outage_retry.py   calls that are retried through an outage; the exceptions that end a launcher early"""
