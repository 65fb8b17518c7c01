"""Scores, predictions, figures of merit, and the decision to promote.

evaluate.py        scores model, champion and rivals on the same rows
rivals.py          simple models that every model is held against
scored_rows.py     rows beside what every model says of them
score.py           a trained model as a function of rows
script_model.py    what a script left as a model to be scored
own_rows.py        predictions of rows that the script labelled itself
baseline.py        logistic regression
baseline_linear.py linear regression, with quantiles
boosting.py        gradient boosting
ngrams.py          the baseline of a language model
names.py           values as names, for slices and groups
predictions.py     what everything below reads
predictions_writer.py  writes them, a row group at a time
residuals.py       what figures of a regression are made of
probabilities.py   what figures are made of, row by row
ranked.py          rows in the order of their scores
metrics.py         figures of merit of one model
one_vs_rest.py     AUCs of several classes, by slice
regression.py      figures of a regression, as metrics.json has them
precision_recall.py  precision against recall, and its mean
thresholds.py      what each threshold flags, and the one to work at
findings.py        what evaluation finds beyond figures of merit
importance.py      what each column is worth to the model
row_losses.py      losses of single rows
examples.py        rows that a reader can learn from
described.py       rows as people read them
drift.py           train rows beside the scored ones
parts.py           rows that are measured together; intervals
measure.py         predictions -> metrics.json
measure_regression.py  the same of a regression
record.py          the content of metrics.json
comparison.py      intervals by resampling groups of rows
clusters.py        a mean difference over clusters of rows, which may follow each other in time, and its error
champion_problem.py  a champion that cannot be compared
seen.py            a champion that has learned from days of the test
amounts.py         figures as people read them
script/   what a script of the user's left, read and judged"""
