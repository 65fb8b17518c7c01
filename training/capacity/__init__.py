"""A job that a launcher has started, and may start again elsewhere: what it is told, and what it tells.

Between the two lie small documents in one folder, on a disk or in a bucket. Without the variables of `control.py`
nothing here does anything. docs/capacity.md has the documents.

control.py    the folder and this job's name in it, from the environment
document.py   one small JSON document, and whether it has changed
fence.py      a job begins only if it is the one that may run
watcher.py    a job that its launcher has forgotten stops
progress.py   how far it is, written from a thread
"""
