"""Preparation on Apache Beam, with the functions, shards and output bytes of a preparation in local processes.

worker_functions.py  the functions of a preparation, for a Beam worker
beam_pipeline.py  the pipeline of these functions; imports Beam
local_runner.py   the pipeline on Beam's local runner
dataflow.py       a preparation on Dataflow: starts or resumes its job, and commits the dataset in a bucket
dataflow_job.py   submits a job, follows it to its end, or cancels it"""
