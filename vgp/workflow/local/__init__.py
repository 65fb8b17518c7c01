"""A workflow -> a run on this machine that proves itself.

local_run.py      a run from request to result: the child process followed, and what ran proven
local_folder.py   the folder of a run: new, found again, links to what the steps wrote
display.py        what a person sees: progress, the result
portable.py       which specs cannot run here, and what differs from Vertex AI
process.py        a process group that leaves nothing behind; what kfp.local prints, as events
proof.py          which tasks ran, and which should have
worker.py         the child process: kfp.local over a spec, commands of the user's own
step.py           the `python3` of the steps: imports from the repository
training_code.py  the library's steps, asked in a process of their own"""
