"""`pipelines upload`: a pipeline, compiled and checked, as a template that the console and schedules start runs of."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from vgp.compiling import commit
from vgp.compiling.compile import compiled
from vgp.settings import Settings
from vgp.spec import template_reference
from vgp.spec.template_reference import LATEST
from vgp.vertex.templates.listing import as_time
from vgp.vertex.templates.upload import Uploaded, upload


def publish(
    name: str,
    tags: Sequence[str],
    *,
    settings: Settings,
    console: Console,
    place: str | None = None,
    max_usd: float | None = None,
) -> dict[str, Any]:
    """Uploads the pipeline `name` with `tags`, the commit's tags and `latest`; what --json prints.

    Raises:
        RequestError: the pipeline, a tag, a setting or the place is wrong; nothing was uploaded.
        WorkFailed: Google refused or could not be reached, or gave back something else than was sent.
    """
    for tag in tags:
        template_reference.tag(tag)
    at = commit.current(settings.repository.root)
    with console.status("compiling") as status:
        made = compiled(name, settings, max_usd=max_usd)
        template = str(made.spec["pipelineInfo"]["name"])
        status.update(f"uploading {template}")
        done = upload(settings, template, made.text.encode(), tags=[*tags, *at.tags, LATEST], place=place)
    _say(done, at, console)
    return {
        "name": done.name, "version": done.version.digest, "uri": done.location, "tags": list(done.tags),
        "moved": done.moved, "uploaded": done.new, "created": as_time(done.version.created),
        "size": done.version.size, "commit": at.sha if at.tags else None,
    }  # fmt: skip


def _say(done: Uploaded, at: commit.Commit, console: Console) -> None:
    how = "uploaded" if done.new else "was there already"
    lines = [
        f"{done.name}@{done.version.digest}",
        f"{how}, {done.version.size:,} bytes, verified by download",
        done.location,
        "tags: " + ", ".join(_tag(tag, done.moved) for tag in done.tags),
    ]
    if at.because:
        lines.append(f"no tag of the commit: {at.because}")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _tag(tag: str, moved: dict[str, str]) -> str:
    return f"{tag} (before: {moved[tag][:19]})" if tag in moved else tag
