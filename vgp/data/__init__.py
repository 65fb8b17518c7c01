"""From raw input to fixed-width Parquet shards with a manifest, and back to rows.

prepare.py        a dataset of a task
shards.py         of one that works shard by shard: scan, combine, make rows, check, write; sums in a tree
processes.py      shards in processes of this machine
beam/             shards on Apache Beam: here, or on Dataflow
place.py          what a process is at, for messages
witness.py        says what a lone process was at, if it is killed
raw.py            files as they are, in a dataset's folder
destination.py    the folder that a preparation may write to, and folders for what is put aside
pool.py           work on many shards in a pool of processes
shard.py          one shard: rows with unique ids and their figures, then Parquet
rows.py           the rows of a prepared split, by number
sampling.py       some of them, at the same cost for any amount of data
columns.py        columns brought to fixed width, and counted, also in bins by which rows are compared
tabular.py        a task over a table
declaration.py    what the class of such a task declares
schema.py         its columns
sources/          the rows of CSV, Parquet and JSON files
engines/          what computes its expressions: DuckDB here, BigQuery there
tables/           from its source to shards
identity.py       a number for each row, the same on every engine
progress.py       stages of long work, told while it goes on
finish.py         what all ways of preparing have in common at their end
text.py           text files, cut into passages
images.py         a task over folders of images
image_labels.py   their classes: folders, or a table beside them; their pixels
tokens.py         text to tokens and back
splits.py         which rows train, validate and test: one of three ways, or the column that says it
split_time.py     by windows of time
split_hash.py     by a hash of group, key or columns, with rare classes in each split
shares.py         what the three have in common: shares, rows that are alike, groups in two splits
windows.py        which days train and which test
periods.py        time windows as people write them
leaks.py          columns that tell the label by themselves
events.py         what happened lately, for features that look back
bundle.py        a trained model as a folder: weights and card
days.py          the days on which files have rows
operating.py     the rule by which a threshold is chosen
reading.py       what later steps take from the pins of the data
task.py          the contract between the product and a user's model
tensor_file.py   one file of tensors
tasks/           the tasks that the library brings, and how any task is found
canonical.py    the form in which every engine spells a value
task_names.py   the names of tasks: short, module:Class, and of earlier versions
engine.py   what an engine does, and the columns that all engines give
"""
