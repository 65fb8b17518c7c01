"""The command line: one file per noun with its options, the one call, its text and its JSON.

verbs.py          the list of verbs and their files, imported at first use
options.py        shared options, loading of settings, printing of results, lazy imports
extras.py         optional dependencies and the command that installs them
config.py         init, config
project.py        new project, update
workflows.py      list, compile, run
check.py          check
convert.py        convert
machines.py       machines
machine_list.py   the table of machines
machine_card.py   one machine in full
tpu_card.py       one TPU machine in full
image.py          image build
submit.py         preflight, submit, rerun: starting runs
runs.py           runs, show, wait, cancel, compare, logs, shell, clean: existing runs and their files
models.py         models: registered versions and the champion
templates.py      upload, templates
schedules.py      schedule, doctor: recurring runs and their health"""
