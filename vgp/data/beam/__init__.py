"""Shards prepared on Apache Beam: the same functions, shards and bytes as in processes here.

work.py           the functions of a preparation, as a worker calls them
graph.py          the pipeline of these functions; imports Beam
local.py          the pipeline on Beam's local runner
dataflow.py       a preparation on Dataflow: its job named, found again, or started; the dataset in a bucket
dataflow_job.py   one job: submitted, followed to its end, or cancelled"""
