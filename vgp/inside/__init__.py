"""The little of the tool that is part of a run: what components may import.

image.py     the name that stands in a component for the one image
imports.py   whose modules a process imports: those of the repository
"""
