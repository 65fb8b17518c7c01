"""The gate, its report, the release, and the decision whether a run trains at all.

decide.py     the decision, from the figures and bounds of a comparison
decision.py   the content of decision.json; the terms of a promotion, checked
levels.py     how sure one of a year's tests must be, and the bounds of the gain at that level
evidence.py   tonight's part of the evidence of all nights
vetoes.py     calibration, slices and constants, which keep a better model from being promoted
reason.py     the decision in a sentence
release/      a better model becomes a version: copied, checked, champion
report/       one page of HTML
retraining/   whether a night trains: what moved since the champion"""
