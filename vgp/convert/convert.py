"""`pipelines convert`: any request for a training job as a config for gcloud, or as a program with Google's SDK."""

import json
import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from vgp.check import legacy
from vgp.check.finding import Judgement
from vgp.convert import job_body
from vgp.convert.conversion import Conversion, Note
from vgp.convert.conversion_view import as_yaml, checked, show, tell
from vgp.convert.flags import FlagError
from vgp.convert.flags import parse as parse_flags
from vgp.convert.legacy_conversion import convert as convert_legacy
from vgp.convert.vm_command import command as vm_command
from vgp.documents.budget import Exhausted
from vgp.documents.document import Document, Unreadable, dotted, parse, read, standard_input
from vgp.errors import RequestError, nearest
from vgp.placement.placement import Placement
from vgp.settings import Settings

__all__ = ["as_yaml", "checked", "convert", "converted", "print_step", "step_config", "step_vm"]

FORMS = ("config", "sdk")


def convert(source: str, *, form: str = "config", as_json: bool = False, as_of: date | None = None) -> int:
    """Converts a file (`-`: standard input) or a gcloud command line; prints the result and its account.

    The result goes to stdout, what each field became or why it is lost to stderr. One with an error is not printed.

    Args:
        source: Path of a file, or a whole `gcloud ...` line.
        form: config (for gcloud) or sdk (a Python program).
        as_json: Print one JSON document with config, worker_pool_specs, sdk, notes, lost, command and findings.
        as_of: Day on which retirements are judged.

    Returns:
        0 converted, 1 refused because the result has errors.

    Raises:
        RequestError: the source cannot be read.
    """
    if form not in FORMS:
        raise RequestError(f"--to {form}: choose from {', '.join(FORMS)}.")
    document, notes = _document(source)
    result = converted(document, as_of=as_of)
    result.notes[:0] = notes
    return show(result, form=form, as_json=as_json, as_of=as_of)


def _document(source: str) -> tuple[Document, list[Note]]:
    """The first document of the source, and what of the source is not in it."""
    text = source.strip()
    try:
        name = "<command>" if _is_command(text) else "<stdin>" if text == "-" else source
        if not _is_command(text):
            text = standard_input() if text == "-" else read(Path(source))
        if _is_command(text):
            data, lost = parse_flags(text.strip().removeprefix("$ "))
            return Document(name, data, ""), lost
        documents = parse(name, text)
        if documents and documents[0].fault:
            raise documents[0].fault
    except (Unreadable, FlagError) as error:
        raise RequestError(str(error)) from None
    except Exhausted as error:
        raise RequestError(f"{source}: {error}") from None
    if not documents:
        raise RequestError(f"{source}: the file is empty.")
    lost = [Note(dotted(path), "given twice: the last one counts", True) for path in documents[0].repeated]
    others = f"{len(documents) - 1} more" if len(documents) > 1 else ""
    lost += [Note("documents", f"{others} in the file: only the first is converted", True)] if others else []
    return documents[0], lost


def _is_command(text: str) -> bool:
    return text.strip().removeprefix("$ ").startswith("gcloud ")


def converted(document: Document, *, as_of: date | None = None) -> Conversion:
    """The document as a Vertex AI job.

    Raises:
        RequestError: it is neither a legacy job nor a job of Vertex AI.
    """
    data = document.data
    if legacy.recognises(data):
        return convert_legacy(document, Judgement(document, as_of or date.today()))
    if job_body.recognises(data):
        return job_body.conversion(data)
    raise RequestError(
        f"{document.file}: there is nothing to convert: no trainingInput, no custom or tuning job, no worker pools, "
        "no gcloud line."
    )


def print_step(
    step: str,
    *,
    form: str = "config",
    settings: Path | None = None,
    arguments: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Prints a step of pipelines.toml as a config for gcloud, a program with the SDK, or a Compute Engine command.

    The container runs `python -m training STEP` with the arguments, as the settings' account.

    Raises:
        RequestError: no such step in the settings, an unknown form, or a machine that cannot be.
    """
    from vgp import settings as settings_file
    from vgp.placement.placement import place

    if form not in (*FORMS, "vm"):
        raise RequestError(f"--to {form}: choose from {', '.join((*FORMS, 'vm'))}.")
    loaded = settings_file.load(settings)
    if step not in loaded.steps:
        raise RequestError(f"pipelines.toml has no [steps.{step}]. {nearest(step, loaded.steps)}")
    placement = place(loaded.steps[step], region=loaded.region, name=step)
    command = ("python", "-m", "training", step, *arguments)
    if form != "vm":
        return show(_step(placement, loaded, step, command), form=form, as_json=as_json)
    lost, line = _lost_on_a_vm(placement, loaded), step_vm(placement, step, loaded.image, command, _vm_flags(loaded))
    if as_json:
        print(json.dumps({"command": line, "lost": {note.field: note.became for note in lost}}, indent=2))
        return 0
    tell(lost)
    print(line)
    return 0


def _step(placement: Placement, settings: Settings, step: str, command: Sequence[str]) -> Conversion:
    config = step_config(placement, settings.image, command)
    config |= {"serviceAccount": settings.service_account} if settings.service_account else {}
    config |= {"network": settings.network} if settings.network else {}
    return Conversion(
        config, region=placement.region, display_name=step, kms_key=settings.encryption_key, project=settings.project,
        labels=dict(settings.labels),
    )  # fmt: skip


def step_config(
    placement: Placement, image: str, command: Sequence[str] = (), args: Sequence[str] = ()
) -> dict[str, Any]:
    """A step of ours as the config of `gcloud ai custom-jobs create --config`."""
    spec = {"worker_pool_specs": placement.worker_pool_specs(image, command, args)}
    return job_body.conversion({**spec, "scheduling": placement.scheduling()}).config


def step_vm(placement: Placement, name: str, image: str, run: Sequence[str] = (), flags: Sequence[str] = ()) -> str:
    """A step of ours as a `gcloud compute instances create` command, one flag a line."""
    words = [shlex.quote(word) for word in [*vm_command(placement, name=name, image=image, run=run), *flags]]
    return " \\\n  ".join([" ".join(words[:5]), *words[5:]])


def _vm_flags(settings: Settings) -> list[str]:
    labels = ",".join(f"{key}={value}" for key, value in settings.labels.items())
    given = {
        "project": settings.project, "service-account": settings.service_account,
        "boot-disk-kms-key": settings.encryption_key, "labels": labels,
    }  # fmt: skip
    return [f"--{flag}={value}" for flag, value in given.items() if value]


def _lost_on_a_vm(placement: Placement, settings: Settings) -> list[Note]:
    lost = {
        "nodes": f"the command makes one of {placement.nodes} machines" if placement.nodes > 1 else "",
        "reduction_server": "a VM has none" if placement.reduction_server else "",
        "network": f"{settings.network} is the network that Vertex AI peers with" if settings.network else "",
    }
    return [Note(name, why, dropped=True) for name, why in lost.items() if why]
