"""What a table's expressions run on: one engine for each place where data lives.

opening.py           the engine of a source, chosen by where the data lies and the option `engine`
duckdb.py            files, on this machine; larger than its memory
stored.py            the rows of files, as one file for DuckDB
bigquery.py          tables and queries of BigQuery, there
bigquery_source.py   what such tables and queries are: columns, cost, rows"""
