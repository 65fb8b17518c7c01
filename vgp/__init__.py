"""The tool behind the command `pipelines`: checks, compiles and runs pipelines for Vertex AI, in any repository.

Rooms from the bottom up; each imports those before it only:

errors.py    the two expected ways in which a command ends badly
text/        text for people: figures, tables, the nearest word, files written whole
documents/   files of any author, read within limits
catalog/     facts: machines, accelerators, prices, regions
placement/   a need -> one machine, and the rules
inside/      the little that components may import
spec/        compiled workflows, read once
settings/    pipelines.toml, typed
check/       any document -> findings
convert/     any request for a job -> another form
compiling/   a workflow -> a spec
local/       a workflow -> a run on this machine
vertex/      runs, schedules, templates, images, preflight
project/     a new repository
api/         runs from Python
cli/         the verbs
"""

__version__ = "0.1.0"
