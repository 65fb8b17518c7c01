"""The engines that run a table's expressions: DuckDB on this machine, or BigQuery.

engine_choice.py     chooses and opens the engine, by the source and the option `engine`
duckdb.py            DuckDB on this machine, for data larger than its memory
row_store.py         writes the rows of files as one Parquet file for DuckDB
bigquery.py          BigQuery as an engine, for its tables and queries
bigquery_source.py   tables and queries of BigQuery: columns, cost, rows"""
