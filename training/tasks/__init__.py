"""The tasks of this project: `module:Class`, or the name of a file here.

flights.py          late arrivals of flights, from a table
language_model.py   next tokens of any text files
"""
