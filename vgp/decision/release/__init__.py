"""Release: what becomes of a model once the gate has spoken.

release.py    the effects in their order: copy, check, one change of the record; the one call
release_request.py  what is wrong about it can be told before a run starts
check.py      the copy, loaded in a process of its own, must predict what was evaluated
artifact.py   that process
effects.py    what the release does to the record, as a function; the key by which it happens once
outcome.py    what came of it, read from the record"""
