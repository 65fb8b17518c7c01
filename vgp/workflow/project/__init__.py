"""A repository of one's own: written by `vgp new project`, renewed by `vgp update`; the task of a table.

originals.py   the files of this version that are copied, from the wheel or from the tool's repository
manifest.py    what was copied, by digest: which files are as they came
new.py         name and folder -> a repository
table.py       a table -> a task.toml, proposed by the training code
update.py      a repository -> what this version would change in it, and the change"""
