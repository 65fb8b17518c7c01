"""Runs from Python, in a script or a notebook: the same as `vgp run`, and the run as a value.

from vgp.api import run

trained = run("training", epochs=3, task_options={"train": "1-3", "test": "4"}, nproc=2)
trained.metrics["auc"], trained.report, trained.model

runs.py       starts a run, goes on with one, or opens one that has ended
run.py        the run as a value
remote.py     runs on Vertex AI: started, and waited for
parameter_values.py  parameters as a shell gives them
run_progress.py  what is seen while it goes on: in a notebook, a terminal or a log"""

from vgp.api.remote import RemoteRun, submit
from vgp.api.run import Run, RunFailed
from vgp.api.runs import load, resume, run
from vgp.base.errors import RequestError

__all__ = ["RemoteRun", "RequestError", "Run", "RunFailed", "load", "resume", "run", "submit"]
