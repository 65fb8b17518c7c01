"""The command line: one file per noun with its options, the one call, its text and its JSON.

verbs.py          which verb is in which file, loaded when it is used
options.py        what the verbs share: options, settings, how results are printed, imports at first use
extras.py         what a verb needs beyond the light base
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
submit.py         preflight, submit, rerun: what starts a run
runs.py           runs, show, wait, cancel, compare, logs, shell, clean: runs that there are, and what they left
models.py         models: registered versions and the champion
templates.py      upload, templates
schedules.py      schedule, doctor: recurring runs, and their state"""
