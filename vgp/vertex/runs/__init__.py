"""Runs on Vertex AI: started, found, followed, inspected, repeated, compared.

pipeline_job.py   the PipelineJob of a request: its body, its id, a create that can be repeated
start_policy.py   which run answers for a request, when another one is started, and what the command prints of it
attempts.py       the run that a request has, or its next attempt, with what was pinned
run_submission.py  `submit`: from request to console link, and into an experiment
rerun.py          `rerun`: the same run again, from what Google keeps of it
run_search.py     runs found by what a person types, and listed by filters
remote_run.py     a run as Google describes it, in our words, with its steps in DAG order
step_jobs.py      the custom jobs behind its steps, and the attempts of its ladders
job_shell.py      `shell`: the interactive shells of a step's job
outputs.py        artifacts, metrics and values that its steps left; all about a run as JSON
run_cost.py       what it has cost so far, can cost at most, and what the last runs of its pipeline cost
run_view.py       headline, steps and failures as a person sees them; the list of runs
run_pages.py      `show` and `compare`: the page of a run, and runs side by side
follow.py         `wait`: a run followed until it ends; `cancel`
run_logs.py       `logs`: what its steps wrote"""
