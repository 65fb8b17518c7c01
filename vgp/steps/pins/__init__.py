"""Pins: what a run works on, told once at its beginning, so that every later step is a function of it.

resolve.py     a request -> its pins, the one call
request.py     what is wrong about a request can be told before it runs
data.py        the data's files as they are now or were, and the windows in dates
table_days.py  the days on which tables of BigQuery have rows
prediction.py  data and a version of the model, to be predicted with
weights.py     the files of the weights that training begins with
earlier.py     the pins of an earlier run, verified and taken"""
