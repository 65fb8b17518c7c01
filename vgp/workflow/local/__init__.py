"""Runs a workflow on this machine and proves which steps ran.

local_run.py      runs a workflow from request to result: follows the child process and proves the steps
local_folder.py   creates and reopens the folder of a run, and links the outputs of its steps
display.py        prints progress and result
portable.py       refuses specs that cannot run here, and lists differences from Vertex AI
process.py        starts and ends a process group, and reads kfp.local's output as events
proof.py          compares the tasks that ran with those that should have run
worker.py         the child process: runs a spec in kfp.local, and the user's own commands
step.py           the `python3` of the steps, which imports from the repository
training_code.py  calls steps of the library in a process of their own"""
