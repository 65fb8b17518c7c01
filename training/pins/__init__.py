"""Pins: what a run works on, told once at its beginning, so that every later step is a function of it.

resolve.py     a request -> its pins, the one call
request.py     what is wrong about a request can be told before it runs
data.py        the data's files as they are now or were, and the windows in dates
days.py        the days on which files have rows
table_days.py  the days on which tables of BigQuery have rows
moment.py      the moment that a run looks back from
champion.py    the files of a model
reigning.py    the champion as a version of the registry
model_name.py  what the model is called there
prediction.py  data and a version of the model, to be predicted with
weights.py     the files of the weights that training begins with
earlier.py     the pins of an earlier run, verified and taken
reading.py     what later steps take from the pins of the data
documents.py   the three documents: data, champion, run
store.py       documents named by their checksum, written once
epoch.py       the period after which nothing older is taken from the cache
"""
