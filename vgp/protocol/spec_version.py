"""The version of a spec: the library that compiled it, and the protocol of its steps.

`vgp compile` writes both into the environment of each Python step, and `vgp.steps` reads them before the step does
anything. A library runs specs of its own protocol and of the previous one. The environment is part of Vertex AI's cache
key, so the version has no patch number, and a patch release changes no key.
"""

import os
from collections.abc import Mapping

from vgp import __version__
from vgp.base.exits import UserError

#: Incremented when older specs can no longer run: an input of a step was removed, or changed its meaning.
PROTOCOL = 1
#: Holds `LIBRARY/PROTOCOL`, such as 0.1/1. A spec without it has protocol 0.
SPEC_VARIABLE = "TRAINING_SPEC"


def spec_version() -> str:
    """Returns the version that a spec of this library carries."""
    return f"{'.'.join(__version__.split('.')[:2])}/{PROTOCOL}"


def refuse_other_spec(environment: Mapping[str, str] = os.environ) -> None:
    """Raises UserError in a step of a spec whose protocol this library does not run."""
    library, _, text = environment.get(SPEC_VARIABLE, "").partition("/")
    protocol = int(text) if text.isdecimal() else 0
    if PROTOCOL - 1 <= protocol <= PROTOCOL:
        return
    compiled = f"vgp {library}, protocol {protocol}" if library else "a vgp of before protocol 1"
    if protocol > PROTOCOL:
        fix = "Build the image with the version that compiled the spec: vgp image build."
    else:
        fix = (
            "Recompile it with this version: vgp submit; for a template vgp upload, for a schedule vgp schedule apply."
        )
    raise UserError(
        f"the spec of this run was compiled by {compiled}, and the step's image has vgp {__version__}, which runs "
        f"protocol {PROTOCOL} and the previous one. {fix}"
    )
