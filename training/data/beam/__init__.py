"""Shards prepared on Apache Beam: the same functions, shards and bytes as in processes here.

work.py       the functions of a preparation, as a worker calls them
graph.py      the pipeline of these functions; imports Beam
local.py      the pipeline on Beam's local runner
"""
