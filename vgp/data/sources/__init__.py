"""Tables in files: what `data` stands for, and its rows as typed, checked Arrow batches that know where they lie.

files.py        the rows of all files, in order, those of many small files in one go
resolve.py      the files that `data` stands for, the kind of each, and the options that say how text is written
opening.py      the bytes of a file, fetched ahead from a bucket, unpacked and summed; text as UTF-8
blocks.py       a file of text in blocks of whole records, and how the records of each CSV file are laid out
records.py      where records of CSV text end, and on which lines; the names of the columns
delimited.py    CSV text as typed columns
json_lines.py   an object a line as typed columns
parquet.py      Parquet as typed columns
pages.py        which of its texts may be read as they are
values.py       what is missing or wrong, in every kind of file; how large texts become"""
