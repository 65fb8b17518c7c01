"""The registry of models: versions, aliases and history, truth in one object that is compared and swapped.

documents.py  the record: versions, events, levels spent
changes.py    what can be done to it: register, promote, roll back ...; functions from record to record
registry.py   the record where it lies, read and changed
"""
