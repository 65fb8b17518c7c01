"""Tables and queries of BigQuery: named, pinned, run and read. Google's packages are imported only when needed.

names.py      bq://project.dataset.table and .sql files; locations
query.py      the text of a query: its tables, forbidden constructs, and the moment at which it reads
lookup.py     metadata of tables: their pins, and the moments at which pinned tables are read
jobs.py       queries as jobs: estimated, limited, run once, resumed, cancelled
stream.py     rows of a table, by the Storage Read API
client.py     Google's clients, with readable errors"""
