"""The launcher: a step that runs its work as custom jobs of its own.

capacity/   the launcher of a step with a capacity ladder"""
