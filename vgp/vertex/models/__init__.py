"""Vertex AI's Model Registry, brought after the registry of a bucket.

projection.py   the record there, and what Vertex AI shows of it
asking.py   the training code, asked for one verb
place.py    which registry is meant: that of the runs here, or that of the bucket
view.py     versions for a terminal"""
