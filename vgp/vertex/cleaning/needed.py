"""What must stay, however old it is: what a champion, an open run, a schedule or pins of today name.

A champion is named as a folder: in the parameters of a run or a schedule, in pipelines.toml, or in pins. All that
these name below runs/ stays, with the run that it is of.
"""

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.cleaning.groups import Group, Root, calling, group_of
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import ENDED
from vgp.vertex.schedules import schedule_list

WORKERS = 16
_URI = re.compile(r"(?:gs://|/gcs/)[^\s\"'\\<>]+")
_WILDCARD = re.compile(r"[*?\[{]")


class Needed:
    """Groups with the reason why they stay."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._groups: dict[tuple[str, str], str] = {}
        #: Folders above groups, and the beginnings of globs.
        self._above: dict[str, str] = {}

    def add(self, text: str, reason: str) -> None:
        """Takes in every address below the root that the text holds."""
        start = f"{self.root.bucket}/{self.root.prefix}"
        for uri in _URI.findall(text):
            name = uri.removeprefix("gs://").removeprefix("/gcs/").rstrip(",;.)/")
            fixed = _WILDCARD.split(name, maxsplit=1)[0]
            if fixed.startswith(start):
                self._add(fixed.removeprefix(start), whole=fixed == name, reason=reason)
            elif fixed != name and start.startswith(fixed):
                self._above.setdefault("", reason)

    def _add(self, path: str, *, whole: bool, reason: str) -> None:
        """Takes in a path, or the beginning of one: the object's or folder's group, else all groups that begin so."""
        for inside in (path, f"{path}/x") if whole else (path,):
            kind, folder = group_of(inside)
            if kind != "other":
                self._groups.setdefault((kind, folder), reason)
                return
        self._above.setdefault(path, reason)

    def reason(self, group: Group) -> str:
        """Why the group stays; empty if nothing names it."""
        if found := self._groups.get((group.kind, group.folder)):
            return found
        return next((reason for path, reason in self._above.items() if f"{group.folder}/".startswith(path)), "")


def needed(root: Root, pins: Iterable[Group]) -> tuple[Needed, set[str]]:
    """What must stay, and the ids of the open runs.

    Args:
        pins: Those that stay.
    """
    settings, result = root.settings, Needed(root)
    for text in (settings.model_dump_json(), settings.file.read_text(encoding="utf-8") if settings.file else ""):
        result.add(text, "named in pipelines.toml")  # the file also for its other environments
    open_runs = set()
    for id_, text in _open_runs(settings):
        open_runs.add(id_)
        result.add(text, f"the run {id_} needs it, which is open")
    with explained("list the schedules", settings):
        for schedule in schedule_list.existing_schedules(settings):
            result.add(type(schedule).to_json(schedule), f"named by the schedule {schedule.display_name}")
    for text in _contents(root, [group for group in pins if group.kind == "pins"]):
        result.add(text, "named by the pins of a run")
    return result, open_runs


def _open_runs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Ids of the runs that are not over, and all that they say of themselves."""
    states = [state for state in run_search.STATES if state not in ENDED]
    for run in run_search.listed(settings, run_search.Filter(states=states), limit=0):
        with explained(f"look at the run {run.id}", settings):
            job = clients.pipeline_service(settings).get_pipeline_job(
                name=f"{resource_names.location(settings)}/pipelineJobs/{run.id}", **clients.reading()
            )
        yield run.id, json.dumps(type(job).to_dict(job), default=str)


def _contents(root: Root, groups: list[Group]) -> list[str]:
    from google.api_core.exceptions import NotFound

    bucket = clients.storage(root.settings).bucket(root.bucket)

    def read(group: Group) -> str:
        try:
            data: Any = bucket.blob(group.items[0].name).download_as_bytes(**calling())
        except NotFound:  # deleted meanwhile
            return ""
        return str(data.decode(errors="replace"))

    with explained(f"read the pins in {root.uri}", root.settings), ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(read, groups))
