"""A ladder for a need, as lines of pipelines.toml ready to paste, and as JSON."""

import json
from typing import Any

from vgp.base.text.figures import dollars, usd
from vgp.machines.placement.proposal import Proposal, ProposedRung


def text(proposal: Proposal) -> str:
    """The lines for [steps.train], each rung with its price and its reason above it."""
    paid = f"at most {usd(proposal.max_usd)} until the deadline, the machine that climbs with it"
    most = "no ceiling: no price is known of a rung" if proposal.max_usd is None else paid
    lines = [
        f"# {most}. docs/capacity.md",
        "[steps.train]",
        f'deadline = "{_duration(proposal.deadline_s)}"',
        "capacity = [",
        *(line for rung in proposal.rungs for line in _lines(rung)),
        "]",
        *(f"# {note}" for note in proposal.notes),
    ]
    return "\n".join(lines)


def as_json(proposal: Proposal) -> dict[str, Any]:
    return {
        "deadline": _duration(proposal.deadline_s),
        "max_usd": None if proposal.max_usd is None else round(proposal.max_usd, 2),
        "rungs": [rung.as_json() for rung in proposal.rungs],
        "notes": list(proposal.notes),
        "toml": text(proposal),
    }


def _lines(rung: ProposedRung) -> list[str]:
    price = "no price known" if rung.usd_per_hour is None else f"${dollars(rung.usd_per_hour)}/h"
    keys = ", ".join(f"{name} = {json.dumps(value)}" for name, value in rung.keys.items())
    return [f"  # {price}, {rung.reason}", f"  {{{keys}}},"]


def _duration(seconds: int) -> str:
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds // 60}m"
