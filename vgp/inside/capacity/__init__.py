"""The launcher of a step whose capacity is a ladder: it climbs it inside the run, one custom job at a time.

It is a program, the container of that step on Vertex AI:

    python3 -m vgp.inside.capacity --plan JSON --executor_input JSON

plan.py    what the compiler wrote down: the rungs, each with the body of its custom job
"""
