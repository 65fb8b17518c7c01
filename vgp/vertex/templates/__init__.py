"""Workflows uploaded as templates: to a repository of Artifact Registry, or to a bucket.

upload.py       `vgp upload`: one version for the same content; tags moved and taken away
template.py     the templates of a place, listed; one version found by tag or digest, downloaded and verified
template_store.py  what a place for templates can do
registry_store.py  a repository of Artifact Registry
bucket_store.py  a folder in a bucket"""
