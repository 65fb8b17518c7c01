"""A prepared dataset from a table: a task's expressions, run by an engine, into sorted shards.

preparation.py   the flow, from the source to Parquet files and the manifest; what must be known of all rows first
features.py      one expression from the source to finished rows
rebased.py       what a task's methods say, over the columns they may see, and where they raise
agreeing.py      values that engines would compute differently, said so that they do not; orders that nobody stated
blame.py         which expression could not be computed, and for which row
future.py        features that look into the future
sorting.py       finished rows in the order of split and id"""
