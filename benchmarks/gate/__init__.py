"""Simulates promotion gates over a year of nights.

Every gate sees the same data, in clusters: a night's test rows are those of 31 days unless said otherwise, and one unit
is the standard deviation between days of the difference in loss. `gate` is the test of one night with all of the error:
the functions of `decide`, called with arrays. `process` has both halves.

__main__.py   the command: python -m benchmarks.gate
worlds.py     distributions of days without a better model
gates.py      our gate and its rivals
nights.py     independent nights
years.py      years of overlapping windows
process.py    years with both halves: tonight's test, and the evidence of all nights
schedules.py  years with the registry's own evidence: weekly runs, promotions within a year, unequal and missing days
windows.py    the smallest gain that a longer test window shows

Shapes: S nights or Y years at once, G clusters.
"""
