"""A job that a launcher has started, and may start again elsewhere: what it is told, and what it tells.

Between the two lie small documents in one folder, on a disk or in a bucket. Without the variables of `control.py`
nothing here does anything. docs/explanation/how-capacity-is-chosen.md has the documents.

control.py    the folder and this job's name in it, from the environment; its small JSON documents
watcher.py    a job begins only if it is the one that may run; one that its launcher has forgotten stops
progress.py   how far it is, written from a thread
folder.py        the control folder: documents that are replaced under a condition
job_service.py   Vertex AI's custom jobs in one region, by its REST API
ladder.py        what ladder.json holds: attempts and waiting jobs, as values
plan.py          what the compiler wrote down: the rungs, each with the body of its custom job
way.py           the way up as a value for people, and the ways of a run: rungs, time, money, what was lost"""
