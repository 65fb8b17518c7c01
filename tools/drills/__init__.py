"""Long tests with many repetitions, each of which has a short form in the test suite.

capacity/     python -m tools.drills.capacity: climbs of a ladder, with kills
landing.py    python -m tools.drills.landing: training resumes on other machines
registry.py   python -m tools.drills.registry: a hundred runs that end at the same time
bigquery.py   python -m tools.drills.bigquery: compares two engines
"""
