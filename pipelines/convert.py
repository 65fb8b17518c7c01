"""`pipelines convert`: legacy AI Platform jobs and gcloud lines as Vertex AI jobs; our own steps as gcloud commands."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from pipelines.errors import RequestError, nearest
from pipelines.machines import legacy
from pipelines.machines import report as rendering
from pipelines.machines.check import Report
from pipelines.machines.check import check as judge
from pipelines.machines.conversion import IMAGE, Conversion, Note
from pipelines.machines.conversion import convert as convert_legacy
from pipelines.machines.documents import Document, Unreadable, load, parse
from pipelines.machines.finding import Judgement
from pipelines.machines.flags import FlagError
from pipelines.machines.flags import parse as parse_flags
from pipelines.machines.node import spellings
from pipelines.machines.placement import Placement
from pipelines.machines.vm_command import command as vm_command

FORMS = ("config", "sdk")


def convert(source: str, *, form: str = "config", as_json: bool = False, as_of: date | None = None) -> int:
    """Converts a file (`-`: standard input) or a gcloud command line; prints the result and its account.

    The config goes to stdout, what each field became to stderr. A result with an error is not printed.

    Args:
        source: Path of a trainingInput file, or a whole `gcloud ...` line.
        form: config (for gcloud) or sdk (worker_pool_specs of the Python SDK, as JSON).
        as_json: Print one JSON document with config, worker_pool_specs, notes, command and findings.
        as_of: Day on which retirements are judged.

    Returns:
        0 converted, 1 refused because the result has errors.

    Raises:
        RequestError: the source cannot be read.
    """
    if form not in FORMS:
        raise RequestError(f"--to {form}: choose from {', '.join(FORMS)}.")
    result = converted(_document(source), as_of=as_of)
    report = checked(result, as_of=as_of)
    if as_json:
        print(json.dumps(_as_json(result, report), indent=2))
    else:
        _print(result, report, form)
    return 1 if report.errors else 0


def _document(source: str) -> Document:
    text = source.strip()
    try:
        if text.startswith(("gcloud ", "$ gcloud ")):
            return Document("<command>", parse_flags(text.removeprefix("$ ")), text)
        documents = parse("<stdin>", sys.stdin.read()) if text == "-" else load(Path(source))
        if documents and isinstance(documents[0].data, str) and documents[0].data.lstrip("$ ").startswith("gcloud "):
            line = documents[0].text.strip().removeprefix("$ ")
            return Document(source, parse_flags(line), line)
    except (Unreadable, FlagError) as error:
        raise RequestError(str(error)) from None
    if not documents:
        raise RequestError(f"{source}: the file is empty.")
    return documents[0]


def converted(document: Document, *, as_of: date | None = None) -> Conversion:
    """The document as a Vertex AI job.

    Raises:
        RequestError: it is neither a legacy job nor a custom job.
    """
    data = document.data
    if legacy.recognises(data):
        return convert_legacy(document, Judgement(document, as_of or date.today()))
    if isinstance(data, dict) and "workerPoolSpecs" in data:
        spec = {key: value for key, value in data.items() if key not in ("location", "displayName")}
        notes = [Note("--worker-pool-spec", "workerPoolSpecs, a list with one entry for each")]
        return Conversion(spec, notes, region=data.get("location"), display_name=data.get("displayName"))
    raise RequestError(f"{document.file}: no trainingInput and no gcloud line: there is nothing to convert.")


def checked(result: Conversion, *, as_of: date | None = None) -> Report:
    """What `pipelines check` says to the result, with what could not be read of the source."""
    document = parse("config.yaml", as_yaml(result.config))[0]
    report = judge([document], regions=[result.region] if result.region else [], as_of=as_of)
    report.findings = [finding for finding in report.findings if not finding.message.startswith(f"{IMAGE} has no tag")]
    report.findings[:0] = [finding for finding in result.findings if finding.rule != "GPU027"]
    return report


def as_yaml(config: dict[str, Any]) -> str:
    return yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=1000)


def worker_pool_specs(pools: Any) -> Any:
    """The pools in the snake_case of the Python SDK; contents of env and args stay as they are."""
    if isinstance(pools, list):
        return [worker_pool_specs(pool) for pool in pools]
    if isinstance(pools, dict):
        return {spellings(key)[1]: worker_pool_specs(value) for key, value in pools.items()}
    return pools


def _as_json(result: Conversion, report: Report) -> dict[str, Any]:
    return {
        "config": None if report.errors else result.config,
        "worker_pool_specs": None if report.errors else worker_pool_specs(result.job["workerPoolSpecs"]),
        "command": result.command(),
        "notes": [{"field": note.field, "became": note.became, "dropped": note.dropped} for note in result.notes],
        **report.as_json(),
    }


def _print(result: Conversion, report: Report, form: str) -> None:
    for note in result.notes:
        print(f"{note.field}: {'dropped: ' if note.dropped else ''}{note.became}", file=sys.stderr)
    print("\n".join(rendering.lines(report)), file=sys.stderr)
    if report.errors:
        print("error: not converted: the result would not run.", file=sys.stderr)
        return
    if form == "sdk":
        print(json.dumps(worker_pool_specs(result.job["workerPoolSpecs"]), indent=2))
        return
    print(as_yaml(result.config), end="")
    print(f"Save it as config.yaml, then: {result.command()}", file=sys.stderr)


def print_step(step: str, *, form: str = "config", settings: Path | None = None, arguments: Sequence[str] = ()) -> int:
    """Prints a step of pipelines.toml as a config for gcloud, worker_pool_specs, or a Compute Engine command.

    The container runs `python -m training STEP` with the arguments.

    Raises:
        RequestError: no such step in the settings, an unknown form, or a machine that cannot be.
    """
    from pipelines import settings as settings_file
    from pipelines.machines.placement import place

    if form not in (*FORMS, "vm"):
        raise RequestError(f"--to {form}: choose from {', '.join((*FORMS, 'vm'))}.")
    loaded = settings_file.load(settings)
    if step not in loaded.steps:
        raise RequestError(f"pipelines.toml has no [steps.{step}]. {nearest(step, loaded.steps)}")
    placement = place(loaded.steps[step], region=loaded.region, name=step)
    command = ("python", "-m", "training", step, *arguments)
    if form == "vm":
        print(step_vm(placement, step, loaded.image, command))
    elif form == "sdk":
        print(json.dumps(placement.worker_pool_specs(loaded.image, command), indent=2))
    else:
        print(as_yaml(step_config(placement, loaded.image, command)), end="")
    return 0


def step_config(
    placement: Placement, image: str, command: Sequence[str] = (), args: Sequence[str] = ()
) -> dict[str, Any]:
    """A step of ours as the config of `gcloud ai custom-jobs create --config`."""
    pools = placement.worker_pool_specs(image, command, args)
    scheduling = {_camel(key): value for key, value in placement.scheduling().items()}
    return {"workerPoolSpecs": _camel_keys(pools), "scheduling": scheduling}


def step_vm(placement: Placement, name: str, image: str, run: Sequence[str] = ()) -> str:
    """A step of ours as a `gcloud compute instances create` command, one flag a line."""
    words = [shlex.quote(word) for word in vm_command(placement, name=name, image=image, run=run)]
    return " \\\n  ".join([" ".join(words[:5]), *words[5:]])


def _camel_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel_keys(item) for item in value]
    if isinstance(value, dict):
        return {_camel(key): _camel_keys(item) for key, item in value.items()}
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
