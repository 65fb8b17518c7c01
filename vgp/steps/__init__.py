"""What each step of a pipeline calls. Components and `python -m vgp.steps` use nothing else of the library.

    from vgp import steps

    steps.prepare("data/", pins=..., task="flights")

The functions in `PUBLIC` are the interface between a project and the library. A project that was written for a version
runs with the next one, too: a function or an input that goes is named with what takes its place.

calls.py                the steps of training: prepare, train, collect, evaluate, decide, register
resolution.py           the first step: pins, settings for the later steps, the decision
retraining_verdict.py   whether a run trains, with its reason, also as a page
prediction.py           the steps of batch prediction: resolve and predict
notice.py               the exit step: the summary written, printed and sent
vertex_records.py       a run in Vertex AI's Model Registry and experiments, written by its own steps
form.py                 what a workflow file says of its form to commands; public as well
run_request.py          the form read into typed settings, checked before anything starts
pins/                   what a run works on, resolved once at its beginning
"""

from importlib import import_module
from typing import Any

from vgp import __version__
from vgp.base.exits import exits
from vgp.protocol.spec_version import refuse_other_spec

#: Public name -> its module and its name there. Each is imported at its first use: a step that only reports how a run
#: ended needs no NumPy.
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
    "notify": ("vgp.steps.notice", "tell"),
    "follow_registry": ("vgp.steps.vertex_records", "follow"),
    "commit_of_run": ("vgp.protocol.commit", "of_run"),
}


def __getattr__(name: str) -> Any:
    """Returns a public function.

    Raises:
        AttributeError: this version has none of that name.
        SystemExit: the step is of a spec that this version does not run; the reason is on stderr.
    """
    if name not in PUBLIC:
        raise AttributeError(
            f"vgp.steps of version {__version__} has no {name!r}. It has {', '.join(PUBLIC)}; `vgp update` shows what "
            "changed in the steps since a project was written."
        )
    if name != "notify":  # it tells how a run ended, also one whose steps refused their spec
        exits(refuse_other_spec)()
    module, function = PUBLIC[name]
    return getattr(import_module(module), function)
