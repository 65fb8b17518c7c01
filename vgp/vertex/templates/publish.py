"""`vgp upload`: a workflow, compiled and checked, as a template that the console and schedules start runs of."""

from collections.abc import Sequence

from rich.console import Console

from vgp.settings import Settings, template_reference
from vgp.settings.template_reference import LATEST
from vgp.vertex.images import held
from vgp.vertex.templates.upload import Uploaded, upload
from vgp.workflow.compiling import commit
from vgp.workflow.compiling.compile import compiled


def publish(
    name: str,
    tags: Sequence[str],
    *,
    settings: Settings,
    console: Console,
    place: str | None = None,
    max_usd: float | None = None,
) -> tuple[Uploaded, commit.Commit]:
    """Uploads the workflow `name` with `tags`, the commit's tags and `latest`; with the commit that it is of.

    Raises:
        RequestError: the workflow, a tag, a setting or the place is wrong; nothing was uploaded.
        WorkFailed: Google refused or could not be reached, or gave back something else than was sent.
    """
    for tag in tags:
        template_reference.tag(tag)
    source = commit.current(settings.repository.root)
    with console.status("compiling") as status:
        workflow = compiled(name, settings, max_usd=max_usd)
        held.refuse_missing(settings, workflow.spec, {})
        template = workflow.spec.name
        status.update(f"uploading {template}")
        content = workflow.spec.text.encode()
        return upload(settings, template, content, tags=[*tags, *source.tags, LATEST], place=place), source
