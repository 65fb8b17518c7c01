"""The functions that a project's components call, and `python -m vgp.steps`.

    from vgp import steps

    steps.prepare("data/", pins=..., task="flights")

The functions in `PUBLIC` are the interface between a project and the library. A project written for one version runs
with the next version; a removed function or input is named with its replacement.

calls.py                the steps of training: prepare, train, collect, evaluate, decide, register
resolution.py           the first step: pins, settings for the later steps, the decision
retraining_verdict.py   whether a run trains, with its reason, as text and as a page
prediction.py           the steps of batch prediction: resolve and predict
notice.py               the exit step: writes, prints and sends the summary
vertex_records.py       updates Vertex AI's Model Registry and experiments from a step
project_code.py         imports the run's archive of code before the code in the image
form.py                 checks of a workflow's parameters before a run starts; public
run_request.py          reads the parameters into typed settings
pins/                   resolves data, windows and champion at the start of a run
"""

from importlib import import_module
from typing import Any

from vgp import __version__
from vgp.base.exits import exits
from vgp.protocol.spec_version import refuse_other_spec
from vgp.steps import project_code

#: Public name -> module and name in it, imported at first use: the exit step needs no NumPy.
PUBLIC = {
    "resolve": ("vgp.steps.calls", "resolve"),
    "prepare": ("vgp.steps.calls", "prepare"),
    "train": ("vgp.steps.calls", "train"),
    "collect": ("vgp.steps.calls", "collect"),
    "evaluate": ("vgp.steps.calls", "evaluate"),
    "decide": ("vgp.steps.calls", "decide"),
    "register": ("vgp.steps.calls", "register"),
    "resolve_prediction": ("vgp.steps.prediction", "resolve"),
    "predict": ("vgp.steps.prediction", "predict"),
    "notify": ("vgp.steps.notice", "send_summary"),
    "follow_registry": ("vgp.steps.vertex_records", "follow"),
    "commit_of_run": ("vgp.protocol.commit", "of_run"),
}


def __getattr__(name: str) -> Any:
    """Returns a public function.

    Raises:
        AttributeError: this version has no function of that name.
        SystemExit: this version does not run the step's spec; the reason is on stderr.
    """
    if name not in PUBLIC:
        raise AttributeError(
            f"vgp.steps of version {__version__} has no {name!r}. It has {', '.join(PUBLIC)}; `vgp update` shows the "
            "changes of the library's own components."
        )
    if name != "notify":  # the exit step reports even runs whose steps refused their spec
        exits(refuse_other_spec)()
        exits(project_code.import_first)()
    module, function = PUBLIC[name]
    return getattr(import_module(module), function)
