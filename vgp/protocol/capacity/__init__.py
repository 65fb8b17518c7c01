"""The protocol between a capacity launcher and the jobs that it starts and moves.

They exchange small documents in one folder, on a disk or in a bucket; without the variables of `control.py` nothing
here has an effect. docs/explanation/how-capacity-is-chosen.md describes the documents.

control.py    the control folder and the attempt, from the environment; its documents
watcher.py    starts a job only if its attempt may run, and stops an orphaned one
progress.py   the progress of a job, written from a thread
control_folder.py  the control folder in a bucket: compare-and-swap of its documents
job_service.py   Vertex AI's custom jobs in one region, by its REST API
ladder.py        the content of ladder.json: attempts and waiting jobs
plan.py          the compiled plan: the rungs, each with the body of its custom job
ladder_view.py   views of ladders for people: rungs, time, cost, lost steps"""
