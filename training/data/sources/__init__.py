"""Tables in files: what `data` stands for, and its rows as typed, checked Arrow batches that know where they lie.

files.py       the rows of all files, in order
resolve.py     the files that `data` stands for, and the kind of each
reading.py     what is said of files of text: separator, quote, encoding, decimal mark
staging.py     objects of a bucket, here while they are read
opening.py     the bytes of a file, unpacked and summed
encoding.py    text as UTF-8
blocks.py      a file of text in blocks of whole records
together.py    blocks as rows, those of many small files in one go
header.py      the names of a CSV file's columns, and how they are parted
delimited.py   CSV text as typed columns
records.py     where records of CSV text end, and on which lines
mistakes.py    what is wrong with a record
"""
