"""The registry of models: each model's versions, aliases and history, in one object that is changed atomically.

documents.py    the record of a model: versions, events, error spent; encoding and decoding; model names
changes.py      changes of a record: register, promote, roll back ...; functions from record to record
registry.py     reads and changes a record on a disk or in a bucket
disk.py         a record on a disk: a lock, and an atomic rename
versions.py     the files of a version: copy, verify, delete
sweep.py        finds and deletes files that belong to no version
evidence.py     the evidence of all nights that challengers beat the champion
tests_spent.py  the error budget of a year's tests
reigning.py     the champion for a run: finds the version, and pins its files
verbs.py        the verbs of `vgp models`: list, show, promote, roll back ...
record_view.py  records as JSON values, and as lines for a terminal
command.py      the command line of the verbs"""
