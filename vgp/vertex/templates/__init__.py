"""Workflows uploaded as templates: to a repository of Artifact Registry, or to a bucket.

upload.py       `vgp upload`: uploads a version once per content; moves and removes tags
template.py     lists the templates of a store; finds one version by tag or digest, downloads and verifies it
template_store.py  the interface of a store of templates
registry_store.py  a repository of Artifact Registry
bucket_store.py  a folder in a bucket"""
