"""Pins: what a run works on, told once at its beginning, so that every later step is a function of it.

documents.py   the three documents: data, champion, run
store.py       documents named by their checksum, written once
epoch.py       the period after which nothing is taken from the cache
resolve.py     a request -> its pins
"""
