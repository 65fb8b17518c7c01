"""A prepared dataset from a table: a task's expressions, run by an engine, into sorted shards.

preparation.py   the flow, from the source to the manifest
duplicates.py    ids, and keys that occur twice
survey.py        what must be known of all rows before their splits are chosen
rebased.py       what a task says of columns that it may see
order.py         what would be another value every time
features.py      one expression from the source to finished rows
future.py        no future in the past
shards.py        the finished rows, sorted, into Parquet files and figures
"""
