"""A prepared dataset from a table: a task's expressions, run by an engine, into sorted shards.

preparation.py   the flow, from the source to the manifest; what must be known of all rows first
duplicates.py    the id of every row, and keys that occur twice
features.py      one expression from the source to finished rows
blame.py         which expression could not be computed, and for which row
rebased.py       what a task's methods say, over the columns they may see, and where they raise
future.py        features that look into the future
agreeing.py      values that engines would compute differently, said so that they do not; orders that nobody stated
names_there.py   names that BigQuery's columns cannot have
sorting.py       finished rows in the order of split and id
shards.py        sorted rows into Parquet files, and their figures"""
