"""Registered models: which versions there are, which one reigns, and who changed that.

The registry is a folder, here or in a bucket. The repository's training code reads and changes it (training/registry).

place.py       which registry is meant: that of the runs here, or that of the bucket
asking.py      the training code, asked for one verb
view.py        versions for a terminal
"""
