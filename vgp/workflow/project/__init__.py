"""Writes a new project (`vgp new project`), and updates the library in a project (`vgp update`).

project_files.py  writes the files of a project; plans and applies an update
originals.py      reads the workflows and steps that a new project starts with; builds the wheel of this library
"""
