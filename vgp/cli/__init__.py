"""The command line, one file per noun: options, the one call, its text and its JSON.

verbs.py         which verb is in which file; the files are imported when a verb is used
options.py       what several verbs share
extras.py        a verb that needs more than the light base: how to install it
workflows.py     list, compile, run
check.py         check
machines.py      machines; its table and JSON in machine_list.py and machine_card.py
convert.py       convert
config.py        init, config
project.py       new project, update
image.py         image build
preflight.py     preflight
submit.py        submit, rerun
runs.py          runs, show, wait, cancel, compare
logs.py          logs
templates.py     upload, templates
schedules.py     schedule plan, apply, list, pause, resume, delete
"""
