"""Vertex AI's Model Registry, brought after the registry of a bucket.

asking.py   which registry is meant, the training code asked for one verb, Vertex AI's copy brought after it
model_view.py  versions for a terminal"""
