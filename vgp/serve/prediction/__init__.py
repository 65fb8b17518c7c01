"""Predictions of a trained model for raw rows, of a request or of a table.

predictor.py      loads a model and predicts raw rows; scores the shards of one process
database.py       the DuckDB database that computes a table's expressions for all requests
row_encoding.py   encodes raw rows as the columns that a model takes
predict.py        the step `predict`: reads new data, checks drift, scores, commits
new_rows.py       prepares new data as rows for the model
row_shards.py     the columns that a model needs; rows in shards on the scratch disk
output_shards.py  writes and reads predictions as Parquet, and loads them into BigQuery
prediction_folder.py  the destination folder: request, shards, manifest
distribution.py   drift since training; distribution and quality of predictions"""
