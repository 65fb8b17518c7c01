"""From raw input to fixed-width Parquet shards with a manifest, and back to rows.

task.py           the contract between the product and a user's model
tabular.py        a task over a table
schema.py         the declared columns of a table: their types, and the checks of what a task declares
events.py         sums over the hours before a row, for features that look back
images.py         a task over folders of images
image_labels.py   classes of images: folders, or a table beside them; their pixels
text.py           text files, cut into passages
tokens.py         text to tokens and back
tasks/            the tasks that the library brings, and how any task is found
task_names.py     the names of tasks: short, module:Class, and of earlier versions

prepare.py        prepares the dataset of a task, and reads the pins that it was prepared from
destination.py    the folder that a preparation may write to, and folders for scratch files
sources/          the rows of CSV, Parquet and JSON files
engines/          what computes a table's expressions: DuckDB here, BigQuery there
engine.py         what an engine does, and the columns that all engines give
tables/           from a table's source to shards
shards.py         a dataset of a task that works shard by shard, in processes here; sums in a tree
shard.py          one shard: rows with unique ids and their figures, then Parquet
beam/             the same on Apache Beam: here, or on Dataflow
pool.py           work on many shards in a pool of processes, and progress on stderr
place.py          the file and record that a process is at, for messages, also if it is killed
finish.py         what all ways of preparing have in common at their end: checks, and the manifest

splits.py         which rows train, validate and test: by time, by a hash, or by a column
split_hash.py     by a hash of group, key or columns, with rare classes in each split
shares.py         what the three have in common: shares, rows that are alike, groups in two splits
windows.py        which days train and which test
periods.py        time windows as people write them
days.py           the days on which files have rows
identity.py       a number for each row, the same on every engine; keys that occur twice
leaks.py          columns that tell the label by themselves
columns.py        columns brought to fixed width, and counted, also in bins by which rows are compared

rows.py           the rows of a prepared split: by number, shard by shard, or a sample
bundle.py         a trained model as a folder: weights and card
tensor_file.py    one file of tensors"""
