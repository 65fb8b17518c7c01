"""Tables and queries of BigQuery: named, pinned, asked and read. Nothing of Google is imported before it is needed.

names.py      bq://project.dataset.table and .sql files; where data lies
query.py      the text of a query: what it reads, what it may not do, the past that it is read in
lookup.py     what BigQuery tells about tables: their pins, and when pinned ones are read
jobs.py       queries: estimated, limited, run once, found again, cancelled
stream.py     rows of a table, by the Storage Read API
client.py     Google's clients, and their errors in words"""
