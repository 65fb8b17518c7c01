"""A gcloud command line -> the data of a file that says the same, and what of the line is in no file.

data("gcloud ai-platform jobs submit training j --scale-tier=custom --master-machine-type=n1-standard-8 ...")
"""

from collections.abc import Callable, Sequence
from typing import Any

from vgp.check.sources import command_line
from vgp.check.sources.command_line import LOST, REPEATED, FlagError, Line, Note
from vgp.check.sources.gcloud_flags import custom_job, deployment, legacy_job, tuning_job

#: Words of commands -> what their flags say.
_JOBS = {
    ("ai", "custom-jobs", "create"): custom_job,
    ("ai", "hp-tuning-jobs", "create"): tuning_job,
    ("ai", "endpoints", "deploy-model"): deployment,
}
#: How many words a command takes that belong to no flag: the name of a job, the id of an endpoint.
_NAMES: dict[Callable[[Line], dict[str, Any]], int] = {
    custom_job: 0, tuning_job: 0, deployment: 1, legacy_job: 1,
}  # fmt: skip
_LEGACY = [(service, "jobs", "submit", "training") for service in ("ai-platform", "ml-engine")]


def recognises(words: Sequence[str]) -> bool:
    """Whether these words, without the flags, are a command that asks for machines."""
    return words[:1] == ["gcloud"] and _kind(words) is not None


def _kind(words: Sequence[str]) -> Callable[[Line], dict[str, Any]] | None:
    words = [word for word in words[1:6] if word not in ("alpha", "beta")]
    if any(tuple(words[:4]) == command for command in _LEGACY):
        return legacy_job
    return next((kind for command, kind in _JOBS.items() if tuple(words[:3]) == command), None)


def take_unknown(line: Line) -> list[str]:
    """Takes the words out of a script's command that may be flags and that only the shell knows: ${ARGS[@]}."""
    kind = _kind(line.command)
    own = [word for word in line.command if word not in ("alpha", "beta")]
    behind = own[(5 if kind is legacy_job else 4) + (_NAMES[kind] if kind else 0) :]
    unknown = [word for word in behind if word.startswith(("$", "`"))]
    line.command[:] = own[: len(own) - len(behind)] + [word for word in behind if word not in unknown]
    return unknown


def has_machines(data: dict[str, Any]) -> bool:
    """Whether the data of a command name machines, or leave them to Google's choice by name."""
    model, inputs = data.get("deployedModel", {}), data.get("trainingInput", {})
    named = (data.get("jobSpec", {}).get("workerPoolSpecs"), data.get("trialJobSpec"), model.get("dedicatedResources"))
    return any((*named, inputs.get("scaleTier"), inputs.get("masterType")))


def data(line: str | Line) -> tuple[dict[str, Any], list[Note]]:
    """What the command line asks for as the data of a file, and what is in no file.

    Raises:
        FlagError: no such command, a flag that is not known, or a flag with a wrong value.
    """
    words = command_line.parse(line) if isinstance(line, str) else line
    words.command[1:3] = [word for word in words.command[1:3] if word not in ("alpha", "beta")]
    kind = _kind(words.command)
    if kind is None or words.command[:1] != ["gcloud"]:
        raise FlagError(
            "not a command that can be converted. Give `gcloud ai-platform jobs submit training ...`, "
            "`gcloud ai custom-jobs create ...` or `gcloud ai hp-tuning-jobs create ...`."
        )
    job = kind(words)
    for name in dict.fromkeys(flag for flag, _ in words.flags):
        if name in LOST:
            words.lose(name, LOST[name])
        elif name not in REPEATED:
            for value in words.values(name)[:-1]:
                words.lose(f"{name}={value}", "given again, and gcloud takes the last")
    return job, words.lost
