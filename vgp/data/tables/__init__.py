"""A prepared dataset from a table: a task's expressions, run by an engine, into sorted shards.

preparation.py   the flow, from the source to the manifest
duplicates.py    the id of every row, and keys that occur twice
survey.py        what must be known of all rows before their splits are chosen
features.py      one expression from the source to finished rows
blame.py         which expression could not be computed, and for which row
own_code.py      where a task's own Python raised an error
rebased.py       what a task's methods say, over the columns they may see
future.py        features that look into the future
order.py         orders that nobody stated
agreeing.py      values that engines would compute differently, said so that they do not
names_there.py   names that BigQuery's columns cannot have
sorting.py       finished rows in the order of split and id
shards.py        sorted rows into Parquet files, and their figures"""
