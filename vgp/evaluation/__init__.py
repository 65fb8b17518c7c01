"""Scores, predictions, figures of merit, and the decision to promote.

evaluate.py        scores model, champion and rivals on the same rows
rivals.py          simple models that every model is held against; rows beside what every model says of them
score.py           a trained model as a function of rows
script_model.py    what a script left as a model to be scored, also on rows that it labelled itself
baseline.py        logistic regression
baseline_linear.py linear regression, with quantiles
boosting.py        gradient boosting
ngrams.py          the baseline of a language model
names.py           values as names, for slices and groups
predictions.py     what everything below reads
predictions_writer.py  writes them, a row group at a time
ranked.py          rows in the order of their scores, and probabilities row by row
metrics.py         figures of merit of one model, also of one class against the rest
regression.py      figures of a regression, as metrics.json has them, and how they are computed
thresholds.py      what each threshold flags, and the one to work at; precision against recall
findings.py        what evaluation finds beyond figures of merit
importance.py      what each column is worth to the model; losses of single rows
examples.py        rows that a reader can learn from, and their words
drift.py           train rows beside the scored ones
measure.py         predictions -> metrics.json
measure_regression.py  the same of a regression
slices.py          rows where a column has one value; without numpy, for the gate's settings
record.py          the content of metrics.json
comparison.py      intervals by resampling groups of rows, of all rows and of slices
clusters.py        a mean difference over clusters of rows, which may follow each other in time, and its error
champion_problem.py  a champion that cannot be compared, or has learned from days of the test
amounts.py         figures as people read them
script/   what a script of the user's left, read and judged"""
