"""Starts runs from Python, in a script or a notebook, as `vgp run` and `vgp submit` do.

from vgp.api import run

trained = run("training", epochs=3, task_options={"train": "1-3", "test": "4"}, nproc=2)
trained.metrics["auc"], trained.report, trained.model

runs.py       starts, resumes and loads runs on this machine
run.py        the result of a run: metrics, report, model
remote.py     starts runs on Vertex AI and waits for them
parameter_values.py  converts Python values to pipeline parameters
run_progress.py  progress in a notebook, a terminal or a log"""

from vgp.api.remote import RemoteRun, submit
from vgp.api.run import Run, RunFailed
from vgp.api.runs import load, resume, run
from vgp.base.errors import RequestError

__all__ = ["RemoteRun", "RequestError", "Run", "RunFailed", "load", "resume", "run", "submit"]
