"""Runs on Vertex AI: start, find, follow, show, rerun, compare.

A *request* is everything that determines what a run does, and where. A run, or an attempt, is a PipelineJob of it.

pipeline_job.py    the PipelineJob of a request: its body, its id, a create that can be repeated
start_policy.py    whether an existing run answers a request, or another one is started; the command's output
attempts.py        finds the run that answers a request, or starts the next attempt with the same pins
run_submission.py  `submit`: from workflow and parameters to a run, and into an experiment
rerun.py           `rerun`: starts a run again from its PipelineJob
run_search.py      finds a run by id, prefix or link, and lists runs by filters
remote_run.py      a PipelineJob as a run: state, times, parameters, and its steps in DAG order
step_jobs.py       the custom jobs of the steps, and the attempts of their ladders
job_shell.py       `shell`: the interactive shells of a step's job
outputs.py         artifacts, metrics and return values of the steps; a run as JSON
run_cost.py        the cost so far, the cost limit, and the cost of the last runs of a pipeline
run_overhead.py    the time around the steps' work: estimated from a spec, measured in a run
run_view.py        headline, steps and failures of a run for the terminal; the list of runs
run_pages.py       `show` and `compare`: the page of a run, and several runs side by side
follow.py          `wait`: follows a run until it ends; `cancel`
run_logs.py        `logs`: the log entries of the steps"""
