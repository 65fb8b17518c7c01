"""A workflow -> a spec, a spec -> a run on this machine, and the project that holds workflows.

    from vgp.workflow import IMAGE, job, placed, step, target

The names in `PUBLIC` are what files of workflows and components import; a project that was written for a version runs
with the next one, too.

compiling/   a workflow -> a checked spec
local/       a spec -> a run on this machine, and the proof of what ran
project/     a new project, and what this version changes in one
kfp_package.py   kfp imported without its client"""

from importlib import import_module
from typing import Any

from vgp import __version__

#: Public name -> its module. Each is imported at its first use: a component needs no settings.
PUBLIC = {
    "IMAGE": "vgp.protocol.placeholders",
    **dict.fromkeys(("job", "placed", "step", "target"), "vgp.workflow.compiling.placing"),
}


def __getattr__(name: str) -> Any:
    """Returns a public name.

    Raises:
        AttributeError: this version has none of that name.
    """
    if name not in PUBLIC:
        raise AttributeError(f"vgp.workflow of version {__version__} has no {name!r}. It has {', '.join(PUBLIC)}.")
    return getattr(import_module(PUBLIC[name]), name)
