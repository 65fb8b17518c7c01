"""Compiles workflows to specs, runs specs on this machine, and writes the projects that hold workflows.

    from vgp.workflow import IMAGE, job, placed, step, target

Workflows and components import the names in `PUBLIC`. A project that was written for one version also runs with the
next version.

compiling/   compiles a workflow to a checked spec
local/       runs a spec on this machine and proves which steps ran
project/     writes a new project and updates the library in a project
kfp_package.py   imports kfp without its client"""

from importlib import import_module
from typing import Any

from vgp import __version__

#: Public name -> its module. A module is imported when its name is first used, because a component needs no settings.
PUBLIC = {
    "IMAGE": "vgp.protocol.placeholders",
    **dict.fromkeys(("job", "placed", "step", "target"), "vgp.workflow.compiling.placing"),
}


def __getattr__(name: str) -> Any:
    """Returns the object with a public name.

    Raises:
        AttributeError: this version has no such public name.
    """
    if name not in PUBLIC:
        raise AttributeError(f"vgp.workflow of version {__version__} has no {name!r}. It has {', '.join(PUBLIC)}.")
    return getattr(import_module(PUBLIC[name]), name)
