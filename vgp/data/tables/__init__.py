"""Prepares a dataset from a table: an engine runs the task's expressions, and the rows are written as sorted shards.

preparation.py   the whole preparation, from the source to the Parquet files and the manifest
features.py      the expression from the source to finished rows
task_methods.py  calls a task's methods over the columns that they may see
engine_agreement.py  makes engines compute the same values; refuses expressions that are not deterministic
failed_rows.py   finds the expression and the row that could not be computed
future_check.py  finds features that look into the future
sorting.py       sorts finished rows by split and id
"""
