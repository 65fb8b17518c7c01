"""A workflow -> a run on this machine that proves itself."""
