"""Text for people: made safe to print, written to a terminal that may be none, and the few things said in one way.

bucket_uri.py   gs://BUCKET/OBJECT, cut and put together
diff.py         two texts as a unified diff
figures.py      money, durations, numbers, lists in a sentence
files.py        a file written whole or not at all
google_names.py names of projects, accounts, datasets and the like
image_name.py   names of container images
nearest.py      "Did you mean", within limits
price_dates.py  of which day prices are, and when they are too old
printable.py    text from elsewhere without control characters and passwords
secret.py       texts that look like credentials
table.py        the one style of tables
terminal.py     standard streams that cannot end a command
times.py        times of Google's messages"""
