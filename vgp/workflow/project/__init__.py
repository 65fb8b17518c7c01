"""A repository of one's own: written by `vgp new project`, given a newer library by `vgp update`.

project_files.py  a name and a folder -> a repository; what this version would change in one, and the change
originals.py      the files of ours that a project begins with, and the wheel of this library
"""
