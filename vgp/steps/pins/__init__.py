"""Pins: the exact data, champion and weights of a run, fixed in its first step, so that later steps are pure functions.

resolve.py     a request -> its pins, or the pins of an earlier run of the same request
data.py        the data's files and tables, now or at a past moment, and the windows in dates
weights.py     the files of the initial weights
prediction.py  the data and the model version of a batch prediction
request.py     the errors of a request that can be found before it runs"""
