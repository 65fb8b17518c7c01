"""Whole climbs of a ladder on the loopback cloud: the launcher as it is, real jobs, and everything that goes wrong.

__main__.py   python -m tools.drills.capacity: many seeds, a table, an exit code
scenario.py   what happens: capacity, Google's faults, kills; drawn from a seed
work.py       what the jobs do, and the plan that asks for them
standin.py    a program in place of training: a hash, and the documents that a launcher reads
training.py   the step `train` itself, of a tiny task in exact mode
compiled.py   that step as `vgp compile` writes it, with a ladder or without
tiny.py       that task
climb.py      one climb, played to its end
checks.py     what must be true of every climb
waiting.py    and of the jobs that wait beside one on demand
stories.py    one thing that goes wrong at a time
restarts.py   a plain job without a ladder, that Vertex AI itself starts again
rows.py       one climb as a row of the table
summary.py    rows in words, and what all of them come to
calls.py      the launcher killed at every call to Google, before and after it was handled
"""
