"""The flights of 2013, month by month, under several policies of retraining.

__main__.py    the command: python -m benchmarks.replay
policies.py    what is replayed: task, months, policies; and what comes of a year
work.py        the steps of the workflow, each computed once
year.py        every policy through the year
pages.py       tables and plot
"""
