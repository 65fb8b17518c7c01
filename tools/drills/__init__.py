"""Drills: what a suite of minutes cannot repeat often enough. Each has a short form in the suite.

capacity/     python -m tools.drills.capacity: the way up a ladder, with kills
landing.py    python -m tools.drills.landing: training goes on wherever it lands
registry.py   python -m tools.drills.registry: a hundred runs that end at once
bigquery.py   python -m tools.drills.bigquery: two engines compared
"""
