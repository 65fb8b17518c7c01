"""The registry of models: versions, aliases and history, truth in one object that is compared and swapped.

documents.py  the record: versions, events, levels spent
changes.py    what can be done to it: register, promote, roll back ...; functions from record to record
registry.py   the record where it lies, read and changed
tests_spent.py  how much of a year's error its tests have spent
disk.py       a record on a disk: a lock, and one rename
bucket.py     a record in a bucket: put in place of what was read
reading.py    a record as bytes, within limits
versions.py   the files of a version: copied, verified, removed
sweep.py      copies that a kill left, found and removed
verbs.py      what a person does: list, show, promote, roll back ...
shown.py      what there is to tell, as plain values
command.py    the verbs from a shell
champion.py     the files of a model
model_name.py   what the model is called there
reigning.py     the champion as a version of the registry"""
