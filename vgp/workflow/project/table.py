"""`vgp new table`: a task.toml, proposed by the step that looks at tables, in a process of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vgp.workflow.local import training_code


def propose(root: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What `python -m vgp.steps table` decided and wrote.

    Args:
        root: The repository that is worked in.
        arguments: Of that verb; paths are relative to the current folder.

    Raises:
        RequestError: the table or an option is wrong.
        WorkFailed: it could not be read.
    """
    return training_code.ask(root, ["table", "--json", *arguments], failed="the table could not be looked at")
