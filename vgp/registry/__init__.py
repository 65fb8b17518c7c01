"""The registry of models: versions, aliases and history, truth in one object that is compared and swapped.

documents.py  the record: versions, events, levels spent; as bytes, within limits; a model's name
changes.py    what can be done to it: register, promote, roll back ...; functions from record to record
registry.py   the record where it lies, read and changed, also in a bucket
tests_spent.py  how much of a year's error its tests have spent
disk.py       a record on a disk: a lock, and one rename
versions.py   the files of a version: copied, verified, removed
sweep.py      copies that a kill left, found and removed
verbs.py      what a person does: list, show, promote, roll back ...
shown.py      what there is to tell, as plain values
command.py    the verbs from a shell
reigning.py     the champion as a version of the registry, and the files of its model"""
