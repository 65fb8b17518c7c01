"""Pipelines uploaded as templates: to a repository of Artifact Registry, or to a bucket."""
