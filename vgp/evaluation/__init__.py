"""Scores, predictions, and figures of merit of the new model, the champion and simple rivals on the same rows.

evaluate.py        scores model, champion and rivals, and adds importance, examples and drift to the record
score.py           a trained model as a function of rows
champion_problem.py  a champion that cannot be compared, or has learned from days of the test
rivals.py          the simple models that every model is compared with
baseline.py        linear models: logistic regression, and a line with quantiles
boosting.py        gradient boosting
ngrams.py          the baseline of a language model
predictions_writer.py  rows, their names and every model's scores -> predictions.parquet
predictions.py     predictions.parquet, which everything below reads
ranked.py          rows in the order of their scores, and probabilities row by row
measure.py         predictions -> metrics.json
measure_regression.py  predictions of a regression -> its part of metrics.json
metrics.py         figures of merit of one model, also of one class against the rest
regression.py      figures of a regression, as metrics.json has them, and how they are computed
thresholds.py      the effect of each threshold, and the one to work at; precision against recall
record.py          the content of metrics.json
importance.py      the worth of each column to the model; losses of single rows
examples.py        rows that a reader can learn from, and their words
drift.py           train rows beside the scored ones
comparison.py      intervals by resampling groups of rows, of all rows and of slices
clusters.py        a mean difference over clusters of rows, which may follow each other in time, and its error
collect.py         the step: the folder that a script left -> collected.json
collected.py       the content of collected.json, by which later steps know such a folder
script_predictions.py  a script's predictions.parquet as arrays
test_rows.py       a script's predictions compared with the prepared test rows
script_model.py    a script's predictions in place of a trained model, also of rows that the script labelled itself"""
