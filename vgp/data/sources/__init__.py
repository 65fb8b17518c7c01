"""Tables in files: what `data` stands for, and its rows as typed, checked Arrow batches that know where they lie.

files.py       the rows of all files, in order
resolve.py     the files that `data` stands for, and the kind of each
leftovers.py   what lies beside the files of a table and is no data
reading.py     what is said of files of text: separator, quote, encoding, decimal mark
staging.py     objects of a bucket, here while they are read
opening.py     the bytes of a file, unpacked and summed
together.py    parts of files as rows, those of many small files in one go
blocks.py      a file of text in blocks of whole records
encoding.py    text as UTF-8
layouts.py     how the records of each CSV file are laid out
header.py      the names of its columns, and how they are parted
decimals.py    which mark its decimals follow
delimited.py   CSV text as typed columns
records.py     where records of CSV text end, and on which lines
json_lines.py  an object a line as typed columns
parquet.py     Parquet as typed columns
pages.py       which of its texts may be read as they are
compact.py     the protocol of its pages' headers
texts.py       how large its texts become
values.py      what is missing, in every kind of file
mistakes.py    what is wrong with a record"""
