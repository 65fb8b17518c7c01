"""What runs left behind in the bucket, and what of it may go.

groups.py    objects below runs/, put together: a run, a folder of checkpoints, the way up its ladders, pins
needed.py    what champions, open runs and pins still need
cleaning_plan.py  each group with why it stays or goes
remove.py    deletes: nothing that has changed since it was looked at
cleaning_view.py  the plan as a table and as JSON"""
