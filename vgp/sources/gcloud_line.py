"""A gcloud command line -> the data of a file that says the same, and what of the line is in no file.

data("gcloud ai-platform jobs submit training j --scale-tier=custom --master-machine-type=n1-standard-8 ...")
"""

from collections.abc import Callable, Sequence
from typing import Any

from vgp.documents.document import Document
from vgp.sources import command_line
from vgp.sources.account import Note
from vgp.sources.command_line import LOST, REPEATED, FlagError, Line
from vgp.sources.deploy_flags import deployment
from vgp.sources.job_flags import custom_job, tuning_job
from vgp.sources.legacy_flags import legacy_job

#: Words of commands -> what their flags say.
_JOBS = {
    ("ai", "custom-jobs", "create"): custom_job,
    ("ai", "hp-tuning-jobs", "create"): tuning_job,
    ("ai", "endpoints", "deploy-model"): deployment,
}
_LEGACY = [(service, "jobs", "submit", "training") for service in ("ai-platform", "ml-engine")]


def recognises(words: Sequence[str]) -> bool:
    """Whether these words are a command that asks for machines."""
    return words[:1] == ["gcloud"] and _kind(words) is not None


def _kind(words: Sequence[str]) -> Callable[[Line], dict[str, Any]] | None:
    words = [word for word in words[1:6] if word not in ("alpha", "beta")]
    if any(tuple(words[:4]) == command for command in _LEGACY):
        return legacy_job
    return next((kind for command, kind in _JOBS.items() if tuple(words[:3]) == command), None)


def data(
    line: str | list[str], read: Callable[[str], list[Document]] | None = None
) -> tuple[dict[str, Any], list[Note]]:
    """What the command line, or its words, ask for as the data of a file, and what is in no file.

    `read` gives the documents of the file of --config, where that is not simply a path.

    Raises:
        FlagError: no such command, a flag that is not known, or a flag with a wrong value.
    """
    words = command_line.parse(line) if isinstance(line, str) else command_line.of_words(line)
    words.command[1:3] = [word for word in words.command[1:3] if word not in ("alpha", "beta")]
    words.read = read or words.read
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
