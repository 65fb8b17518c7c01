"""A repository of one's own: written by `vgp new project`, given a newer library by `vgp update`.

originals.py   the files of ours that a project begins with, and the wheel of this library
new_project.py  a name and a folder -> a repository
update.py      a repository -> what this version would change in it, and the change
"""
