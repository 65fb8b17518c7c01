"""A gcloud command line -> the data of a file that says the same, and what of the line is in no file.

data("gcloud ai-platform jobs submit training j --scale-tier=custom --master-machine-type=n1-standard-8 ...")
"""

from typing import Any

from vgp.convert import command_line
from vgp.convert.command_line import LOST, REPEATED, FlagError
from vgp.convert.conversion import Note
from vgp.convert.job_flags import custom_job
from vgp.convert.legacy_flags import legacy_job


def data(line: str) -> tuple[dict[str, Any], list[Note]]:
    """What the command line asks for as the data of a file, a legacy job or a custom job; and what is in no file.

    Raises:
        FlagError: no such command, a flag that is not known, or a flag with a wrong value.
    """
    words = command_line.parse(line)
    if any(word in words.command for word in ("ai-platform", "ml-engine")) and "training" in words.command:
        job = legacy_job(words)
    elif words.command[:4] == ["gcloud", "ai", "custom-jobs", "create"]:
        job = custom_job(words)
    else:
        raise FlagError(
            "not a command that can be converted. Give `gcloud ai-platform jobs submit training ...` or "
            "`gcloud ai custom-jobs create ...`."
        )
    for name in dict.fromkeys(flag for flag, _ in words.flags):
        if name in LOST:
            words.lose(name, LOST[name])
        elif name not in REPEATED:
            for value in words.values(name)[:-1]:
                words.lose(f"{name}={value}", "given again, and gcloud takes the last")
    return job, words.lost
