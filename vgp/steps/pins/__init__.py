"""Pins: what a run works on, resolved once at its beginning, so that every later step is a function of it.

resolve.py     a request -> its pins, or those of an earlier run of the same request; the one call
data.py        the data's files and tables as they are now or were, and the windows in dates
weights.py     the files of the weights that training begins with
prediction.py  data and a version of the model, to be predicted with
request.py     the errors of a request that can be found before it runs"""
