"""Runs found, followed, inspected, repeated, compared."""
