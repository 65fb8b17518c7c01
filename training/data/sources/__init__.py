"""Tables in files: what `data` stands for, and its rows as typed, checked Arrow batches that know where they lie.

resolve.py    the files that `data` stands for, and the kind of each
reading.py    how files of text are to be read: separator, quote, encoding, decimal mark
files.py      the rows of all files, in order
"""
