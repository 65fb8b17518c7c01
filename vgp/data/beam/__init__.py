"""Shards prepared on Apache Beam: the same functions, shards and bytes as in processes here.

work.py         the functions of a preparation, as a worker calls them
graph.py        the pipeline of these functions; imports Beam
local.py        the pipeline on Beam's local runner
dataflow.py     the pipeline as a job of Dataflow: named, found again, or started
submission.py   the job handed over by Beam's own runner
following.py    a job followed to its end, or cancelled
dataset.py      the folder of a bucket that workers write to"""
