"""Tables in files: what `data` stands for, and its rows as typed, checked Arrow batches that know where they lie.

files.py       the rows of all files, in order
resolve.py     the files that `data` stands for, the kind of each, and what lies beside them
reading.py     what is said of files of text: separator, quote, encoding, decimal mark
opening.py     the bytes of a file, fetched ahead from a bucket, unpacked and summed
together.py    parts of files as rows, those of many small files in one go
blocks.py      a file of text in blocks of whole records
encoding.py    text as UTF-8
layouts.py     how the records of each CSV file are laid out, and which mark its decimals follow
header.py      the names of its columns, and how they are parted
delimited.py   CSV text as typed columns
records.py     where records of CSV text end, and on which lines
json_lines.py  an object a line as typed columns
parquet.py     Parquet as typed columns
pages.py       which of its texts may be read as they are
values.py      what is missing, in every kind of file; how large texts become"""
