"""The artifact itself, before it may reign: loaded from the registry in a process of its own, it must predict what was
evaluated. That process knows the folder of the version and nothing of this one's memory."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from vgp.base.exits import EXIT_USER_ERROR, ProcessFailed

#: By how much a prediction may differ, in probabilities and relative to other numbers: evaluation may have run on a GPU
#: and this on a CPU, whose sums are ordered otherwise. On one kind of machine they are the same, bit for bit.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Checked:
    """What the process saw."""

    #: Rows that were predicted again, of how many; 0 where a script's files are all there is.
    rows: int
    of: int
    #: Rows whose predictions are the same, bit for bit, and the largest difference of the others.
    equal: int
    difference: float

    @property
    def words(self) -> str:
        if not self.of:
            return "its files are there, byte for byte"
        some = f"{self.rows:,}" if self.rows == self.of else f"{self.rows:,} of {self.of:,}"
        same = "bit for bit" if self.equal == self.rows else f"up to {self.difference:.1e}"
        return f"loaded from the registry it predicts {some} test rows as evaluated, {same}"


def check(folder: str, data: str, evaluation: str, task: str) -> Checked:
    """Loads the model in the version's folder in a new process and compares its predictions with those evaluated.

    Raises:
        ProcessFailed: it cannot be loaded, or predicts something else.
    """
    command = [sys.executable, "-m", "vgp.decision.release.artifact", folder, data, evaluation, task]
    places = [os.environ.get("PYTHONPATH", ""), *sys.path]  # where this process found the user's task
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, places)))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="backslashreplace")
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or ["it said nothing"]
        said = lines[-1].removeprefix("error: ").removeprefix("failed: ")
        ended = "" if done.returncode in (1, EXIT_USER_ERROR) else f" (exit code {done.returncode})"
        raise ProcessFailed(
            f"the copy in {folder} is not registered, for it did not pass its check{ended}: {said} The champion stays."
        )
    fields: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Checked(**fields)
