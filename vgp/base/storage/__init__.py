"""Local files and objects in Cloud Storage: found, read within limits, and written once.

storage.py    one interface to both
client.py     Google's client, with readable errors
finding.py    local names, folders and globs; past states of a bucket; unsupported schemes
pinned.py     the files that a document of pins lists
objects.py    write-once objects
slot.py       an object replaced by compare-and-swap
download.py   verified downloads of objects
files.py      untrusted local files, and atomic replacement
dataflow.py   jobs of Dataflow
inflate.py    compressed files, expanded within limits
bigquery/   tables and queries of BigQuery"""
