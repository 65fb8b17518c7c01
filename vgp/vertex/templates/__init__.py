"""Workflows uploaded as templates: to a repository of Artifact Registry, or to a bucket.

upload.py       `vgp upload`: one version for the same content; tags moved and taken away
template.py     one version found by tag or digest in its place, downloaded and verified
template_list.py  the templates of a place, and the versions of one, as tables
template_store.py  what a place for templates can do
registry_store.py  a repository of Artifact Registry
bucket_store.py  a folder in a bucket"""
