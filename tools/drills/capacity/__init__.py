"""Climbs of a ladder on the loopback cloud, with the real launcher, real jobs and random faults.

__main__.py   python -m tools.drills.capacity: many seeds, a table, an exit code
scenario.py   capacity, Google's faults and kills of a climb, drawn from a seed
work.py       the work of the jobs, and its ladder
standin.py    a program in place of training: a hash, and the documents that a launcher reads
training.py   the step `train` of a tiny task in exact mode
compiled.py   that step as `vgp compile` writes it, with a ladder or without
tiny.py       that task
climb.py      runs one climb to its end
checks.py     the conditions that every climb must meet
waiting.py    the conditions for jobs that wait for Spot beside one on demand
stories.py    climbs with one fault each
restarts.py   a plain job without a ladder, which Vertex AI restarts
rows.py       one climb as a row of the table
summary.py    rows as text, and their totals
calls.py      kills the launcher at every call to Google, before and after the call is handled
"""
