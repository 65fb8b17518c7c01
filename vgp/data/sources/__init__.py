"""Readers of tables in files: typed, checked Arrow batches whose rows keep their file and position.

table_files.py  reads the rows of all files in order; many small files at once
data_files.py   finds the files of `data` and their formats; the options for text files
file_bytes.py   opens, fetches, decompresses and hashes files; decodes text to UTF-8
text_blocks.py  cuts text files into blocks of whole records; finds the layout of CSV files
records.py      finds the ends of CSV records and the header
delimited.py    reads CSV text as typed columns
json_lines.py   reads JSON lines as typed columns
parquet.py      reads Parquet as typed columns
parquet_pages.py  bounds the size of the texts in a Parquet file
values.py       checks missing and wrong values, in all formats
"""
