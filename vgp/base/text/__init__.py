"""Text for people: made safe to print, written to a terminal that may be none, and the few things said in one way.

figures.py      money, durations, numbers, lists in a sentence; the one style of tables
google_names.py names of projects, accounts, datasets, images and the like; gs://BUCKET/OBJECT, cut and put together
nearest.py      "Did you mean", within limits
printable.py    text without control characters and credentials, on streams that cannot end a command
times.py        times of Google's messages; of which day prices are, and when they are too old"""
