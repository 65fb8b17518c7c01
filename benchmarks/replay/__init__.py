"""Replays the flights of 2013, month by month, under several policies of retraining.

__main__.py    the command: python -m benchmarks.replay
policies.py    task, months, policies, and the result of a year
work.py        the steps of the workflow, each computed once
year.py        replays every policy through the year
pages.py       tables and plot
"""
