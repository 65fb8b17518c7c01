"""Text for people: safe to print on any stream, with one format for figures, tables and times.

figures.py      money, durations, numbers, lists in a sentence, tables
google_names.py checks of names of projects, accounts, datasets and images; gs:// URIs split and joined
nearest.py      "Did you mean", within limits
printable.py    text without control characters and credentials; fault-tolerant standard streams
times.py        times of Google's messages; the dates of prices, and when they are too old"""
