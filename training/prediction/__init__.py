"""A trained model on rows that nobody has prepared: one request's, or a table's.

predictor.py   a model and raw rows -> its predictions
encoding.py    raw rows -> the columns that a model takes
columns.py     which columns of a table a model needs, where the data lacks some
given.py       rows of this process, as an engine reads those of files
"""
