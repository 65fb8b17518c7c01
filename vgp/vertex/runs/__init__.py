"""Runs on Vertex AI: started, found, followed, inspected, repeated, compared.

pipeline_job.py   the PipelineJob of a request: its body, its id, a create that can be repeated
start_policy.py   which run answers for a request, and when another one is started
attempts.py       the run that a request has, or its next attempt, with what was pinned
run_submission.py  `submit`: from request to console link, and into an experiment
rerun.py          `rerun`: the same run again, from what Google keeps of it
started.py        what a command tells that started a run, or nothing
run_search.py     runs found by what a person types, and listed by filters
remote_run.py     a run as Google tells it, in our words
run_steps.py      its steps in DAG order, each with its state
ladder_view.py  the ways up its ladders
job_shell.py      `shell`: the interactive shells of a step's job
custom_jobs.py    the jobs that its steps started
outputs.py        artifacts, metrics and values that its steps left; all about a run as JSON
run_cost.py       what it has cost so far, and can cost at most
run_history.py    what the last runs of a pipeline cost
run_view.py       headline, steps and failures as a person sees them; the list of runs
show.py           `show`: the page of a run
compare.py        `compare`: runs side by side
follow.py         `wait`: a run followed until it ends; `cancel`
run_logs.py       `logs`: what its steps wrote
log_filter.py     which entries of Cloud Logging those are"""
