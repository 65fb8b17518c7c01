"""From raw input to fixed-width Parquet shards with a manifest, and back to rows.

task.py           the class that a user writes for their own model
tabular.py        a task over a table
schema.py         the declared columns of a table: their types, and checks of a task's declaration
events.py         sums over the hours before a row, for features that look back
images.py         a task over folders of images
image_labels.py   classes of images, from folders or a label table; decoded pixels
text.py           text files, cut into passages
tokens.py         text to tokens and back
tasks/            the tasks of the library, and the import of any task
task_names.py     the names of tasks: short, module:Class, and of earlier versions

prepare.py        prepares the dataset of a task; reads the pins of its data
destination.py    the output folder of a preparation, and scratch folders
sources/          the rows of CSV, Parquet and JSON files
engines/          run a table's expressions: DuckDB on this machine, or BigQuery
engine.py         the interface of an engine, and the columns that all engines return
tables/           from a table's source to shards
shards.py         a dataset prepared shard by shard, in processes of this machine
shard.py          one shard: rows with unique ids and their statistics, then Parquet
beam/             the shards on Apache Beam: on this machine, or on Dataflow
pool.py           a pool of processes for many shards, and progress on stderr
current_place.py  the file and record that a process works on, for messages, even after a kill
dataset_checks.py  the last checks of every preparation, and the manifest

splits.py         which rows train, validate and test: by time, by a hash, or by a column
split_hash.py     the split by a hash of group, key or columns, with rare classes in each split
split_parts.py    shares in per cent, counts of equal rows, and groups that are in two splits
windows.py        which days train and which test
periods.py        parses time windows such as 2013-01:2013-06
data_days.py      the days on which files have rows
identity.py       a number for each row, equal on every engine; repeated keys
leaks.py          finds columns that predict the label alone
columns.py        columns in fixed width, their statistics, and their histograms

rows.py           the rows of a prepared split: by number, shard by shard, or a sample
bundle.py         a trained model as a folder: weights and card
tensor_file.py    one file of tensors"""
