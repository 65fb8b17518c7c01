"""Files on this machine and objects in Cloud Storage: found, read within limits, and written once.

storage.py    both, found and written the same way
client.py     Google's client, and its errors in words
finding.py    names, folders and globs on this machine; a bucket as it was; places that are refused
pinned.py     the files that a document of pins lists
objects.py    objects that are written once
slot.py       an object that is replaced by whoever has seen what was there
download.py   objects as verified files here
files.py      files that somebody else may have made; replaced whole
dataflow.py   jobs of Dataflow by Google's client
inflate.py    compressed files, expanded within limits
bigquery/   tables and queries of BigQuery"""
