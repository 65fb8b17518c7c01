"""The tasks of this project. Name a task by its file here, or as `module:Class`.

flights.py          predicts late arrivals of flights, from a table
language_model.py   predicts the next tokens of text files
"""
