"""A prepared dataset from a table: a task's expressions, run by an engine, into sorted shards.

preparation.py   the flow, from the source to the manifest
survey.py        what must be known of all rows before their splits are chosen
features.py      one expression from the source to finished rows
shards.py        the finished rows, sorted, into Parquet files and figures
"""
