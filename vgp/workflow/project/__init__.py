"""A repository of one's own: written by `vgp new project`, given a newer library by `vgp update`; the task of a table.

originals.py   the files of ours that a project begins with, from the wheel or from the library's repository
wheel.py       this very library as one file, which a project carries
new.py         a name and a folder -> a repository
table.py       a table -> a task.toml, proposed by the step that looks at tables
update.py      a repository -> what this version would change in it, and the change
"""
