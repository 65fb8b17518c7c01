"""Release: what becomes of a model once the gate has spoken.

release.py    the effects in their order: copy, check of the copy, one change of the record; the one call
artifact.py   the process of that check, which loads the copy and predicts
effects.py    the effect of a release on the record, as a function; the key by which it happens once
outcome.py    the outcome of a release, read from the record"""
