"""Checks that every workflow compiles for Vertex AI with existing machines, and that the task trains on this machine.

python -m unittest discover tests
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Your own task, with options for a quick run: few rows, a small model.
RUN = {"task": "digits", "epochs": "2", "global_batch_size": "64", "task_options": '{"channels": 4}'}


def vgp(*arguments: str) -> str:
    """Runs a command and returns its output; if it fails, the test fails with the command's error."""
    command = [sys.executable, "-P", "-m", "vgp", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"vgp {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


class Project(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_every_workflow_compiles_for_machines_that_exist(self) -> None:
        vgp("compile", "--out", str(self.folder))
        specs = sorted(self.folder.glob("*.json"))
        self.assertTrue(specs)
        vgp("check", *map(str, specs))

    def test_the_task_meets_its_contract(self) -> None:
        from training.tasks.digits import Digits

        from vgp.testing import prepared

        prepared(Digits, channels=4).check()

    def test_the_task_trains_from_its_data_to_a_decision(self) -> None:
        settings = [word for name, value in RUN.items() for word in ("--set", f"{name}={value}")]
        result = json.loads(vgp("run", "training", "--out", str(self.folder), "--json", *settings))
        self.assertEqual(result["state"], "succeeded")
        self.assertTrue((Path(result["folder"]) / "report.html").is_file())


if __name__ == "__main__":
    unittest.main()
