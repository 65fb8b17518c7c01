"""Workflows uploaded as templates: to a repository of Artifact Registry, or to a bucket.

upload.py       `vgp upload`: one version for the same content; tags moved and taken away
template.py     one version found by tag or digest in its place, downloaded and verified
listing.py      the templates of a place, and the versions of one, as tables
store.py        what a place for templates can do
repository.py   a repository of Artifact Registry
bucket.py       a folder in a bucket"""
