"""A trained model on rows that nobody has prepared: one request's, or a table's.

predictor.py      a model and raw rows -> its predictions; the shards of one process of several
database.py       where a table's expressions are computed, for many requests
encoding.py       raw rows, of files or of this process -> the columns that a model takes
predict.py        new data -> its predictions: read, held against the training data, scored, committed
rows.py           new data -> rows that the model takes
cutting.py        the columns that a model needs; rows -> shards on the scratch disk, and read back
output.py         the rows of a shard -> the bytes that are written and read back, or a table of BigQuery
folder.py         where they go: what is begun, what is there, and the commit
distribution.py   new rows against those that the model learned from; how predictions are spread, how good they were"""
