"""Vertex AI's Model Registry, brought after the registry of a bucket.

projection.py   the record there, and what Vertex AI shows of it
"""
