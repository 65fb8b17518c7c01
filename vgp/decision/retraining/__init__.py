"""Retraining: whether a schedule's run trains at all, decided from what is new, and said in one sentence.

policy.py     the settings of the decision
reigning.py   the champion: what it was trained on, with what, and when
look.py       a bounded look at the newest rows
shift.py      the distance of new rows from the champion's training data, against chance
findings.py   the findings of the look, with the champion's loss on labelled rows, in figures and words"""
