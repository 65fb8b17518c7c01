"""A script of the user's in place of our training: what it left in its folder, read and judged; nothing of it is run.

collect.py       the step: the folder -> what was taken up
collected.py     the content of collected.json, by which later steps know such a folder
script_metrics.py      metrics.json: flat numbers; script.json: what ran, as the launching text wrote it down
script_columns.py      the columns of predictions.parquet that hold the predictions
script_predictions.py  predictions.parquet as arrays
test_rows.py     predictions held against the prepared test rows"""
