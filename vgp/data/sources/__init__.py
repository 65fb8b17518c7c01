"""Readers of tables in files: typed, checked Arrow batches whose rows keep their file and position.

files.py        reads the rows of all files in order; many small files at once
resolve.py      finds the files of `data` and their formats; the options for text files
opening.py      opens, fetches, decompresses and hashes files; decodes text to UTF-8
blocks.py       cuts text files into blocks of whole records; finds the layout of CSV files
records.py      finds the ends of CSV records and the header
delimited.py    reads CSV text as typed columns
json_lines.py   reads JSON lines as typed columns
parquet.py      reads Parquet as typed columns
pages.py        bounds the size of the texts in a Parquet file
values.py       checks missing and wrong values, in all formats
"""
