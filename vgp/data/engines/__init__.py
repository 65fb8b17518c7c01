"""What a table's expressions run on: one engine for each place where data lives.

opening.py           the engine of a source, with the source in it
choice.py            which of them, by where the data lies and the option `engine`
duckdb.py            files, on this machine; larger than its memory
stored.py            what was read, as a file for it
hours_before.py      sums over the hours before, for it
bigquery.py          tables and queries of BigQuery, there
bigquery_source.py   what such tables and queries are: columns, cost, rows"""
