"""Simulates promotion gates over a year of nights.

Every gate sees equal data, in clusters: the test rows of a night are those of 31 days by default, and one unit is the
standard deviation between days of the difference in loss. `gate` is the rule of `decide`: its own functions, called
with arrays.

__main__.py   the command: python -m benchmarks.gate
worlds.py     distributions of days without a better model
gates.py      our gate and its rivals
nights.py     independent nights
years.py      years of overlapping windows
windows.py    the smallest gain that a longer test window shows

Shapes: S nights or Y years at once, G clusters.
"""
