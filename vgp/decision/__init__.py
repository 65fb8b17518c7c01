"""What is done with a trained model: the gate, the report, the release, and whether to train at all.

decide.py     the decision, from the figures and bounds of a comparison
decision.py   the content of decision.json
levels.py     by how much the new model's loss is lower, and how sure one of a year's tests must be
reason.py     the decision in a sentence
terms.py      by which rule a model is promoted, and by whom
vetoes.py     calibration and slices
release/      a better model becomes a version: copied, checked, champion
report/       one page of HTML
retraining/   whether a night trains: what moved since the champion"""
