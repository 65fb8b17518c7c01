"""Each group of the bucket with why it stays or goes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vgp.base.errors import RequestError
from vgp.protocol.epoch import EPOCH_DAYS
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.cleaning.groups import Group, Root, listed
from vgp.vertex.cleaning.needed import Needed, needed
from vgp.vertex.google_errors import explained

#: A result is taken from the cache until its epoch ends, and the run that took it goes on for a while.
LEAST_DAYS = 2 * EPOCH_DAYS
DEFAULT = "60d"
#: The longest that a lease lasts.
_LEASE = timedelta(hours=1)
_AGE = re.compile(r"(\d{1,5})\s*([dw])")


@dataclass(frozen=True)
class Decision:
    """What becomes of a group, and why."""

    group: Group
    goes: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """What becomes of everything below `root`, the largest first."""

    root: Root
    now: datetime
    older_than: timedelta
    decisions: Sequence[Decision]

    @property
    def going(self) -> list[Group]:
        return [decision.group for decision in self.decisions if decision.goes]


def age(text: str) -> timedelta:
    """The age of `--older-than`.

    Raises:
        RequestError: it is none, or less than the cache needs.
    """
    match = _AGE.fullmatch(text.strip())
    if not match:
        raise RequestError(f"--older-than {text}: write days or weeks, such as {DEFAULT} or 10w.")
    days = int(match[1]) * (7 if match[2] == "w" else 1)
    if days < LEAST_DAYS:
        raise RequestError(
            f"--older-than {text}: at least {LEAST_DAYS}d. What is younger may still be taken from the cache: "
            f"two epochs of {EPOCH_DAYS} days."
        )
    return timedelta(days=days)


def plan(settings: Settings, older_than: timedelta, *, later: timedelta = timedelta()) -> Plan:
    """Looks at the bucket; changes nothing.

    Args:
        later: For how much later than now the plan is; for tests.

    Raises:
        RequestError: no bucket or project is set.
        WorkFailed: Google refused or could not be reached.
    """
    root = Root.of(settings)
    number = _project_number(settings)
    groups, now = listed(root)
    now += later
    young = [group for group in groups if now - group.updated < older_than]
    names, open_runs = needed(root, young)
    decisions = [_decided(group, number, now, older_than, names, open_runs) for group in groups]
    decisions.sort(key=lambda decision: (not decision.goes, -decision.group.bytes, decision.group.folder))
    return Plan(root, now, older_than, decisions)


def _decided(
    group: Group, number: str, now: datetime, older_than: timedelta, names: Needed, open_runs: set[str]
) -> Decision:
    why = _why_it_stays(group, number, now, older_than, names, open_runs)
    return Decision(group, not why, why or f"nothing names it, and nothing was written for {older_than.days} days")


def _why_it_stays(
    group: Group, number: str, now: datetime, older_than: timedelta, names: Needed, open_runs: set[str]
) -> str:
    if group.kind == "other":
        return "nothing that a run of ours left"
    project, _, run = group.folder.partition("/")
    if group.kind == "run" and project != number:
        return f"of another project, number {project}"
    if group.kind in ("run", "capacity") and run in open_runs:
        return "the run is open"
    if reason := names.reason(group):
        return reason
    if group.lease and now - group.lease.updated < _LEASE:
        return "a run holds its lease"
    if now - group.updated < older_than:
        return f"younger than {older_than.days} days"
    return ""


def _project_number(settings: Settings) -> str:
    with explained(f"look for the number of the project {clients.project(settings)}", settings):
        client = clients.projects(settings)
        name = client.get_project(name=f"projects/{settings.project}", **clients.reading()).name
    return str(name).rsplit("/", 1)[-1]
