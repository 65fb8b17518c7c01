"""Compiled pipelines: their parameters, conditions, caching and differences."""
