"""Text for people: made safe to print, written to a terminal that may be none, and the few things said in one way.

figures.py      money, durations, numbers, lists in a sentence
whole_files.py  a file written whole or not at all; two texts as a unified diff
google_names.py names of projects, accounts, datasets, images and the like; gs://BUCKET/OBJECT, cut and put together
nearest.py      "Did you mean", within limits
printable.py    text from elsewhere without control characters, passwords and credentials
table.py        the one style of tables
terminal.py     standard streams that cannot end a command
times.py        times of Google's messages; of which day prices are, and when they are too old"""
