"""Workflows uploaded as templates: to a repository of Artifact Registry, or to a bucket.

publish.py      a workflow, compiled and checked, as a version with its tags
upload.py       one version for the same content; tags moved and taken away
template.py     one version found by tag or digest, downloaded and verified
listing.py      the templates of a place, and the versions of one
store.py        what a place for templates can do
place.py        which of the two a place is
repository.py   a repository of Artifact Registry
bucket.py       a folder in a bucket
view.py         the tables of `vgp templates`"""
