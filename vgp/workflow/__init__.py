"""A workflow -> a spec, a spec -> a run on this machine, and the project that holds workflows.

compiling/   a workflow -> a checked spec
local/       a spec -> a run on this machine, and the proof of what ran
project/     a new project, and what this version changes in one
kfp_package.py   kfp imported without its client"""
