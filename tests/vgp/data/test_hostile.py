"""Every file of `hostile.CASES` gives a sentence or a dataset, in little time and memory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import training

from .hostile import CASES


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The message for each file, its time, and the files left behind; by one process with little memory."""
    folder = tmp_path_factory.mktemp("hostile")
    scratch = tmp_path_factory.mktemp("scratch")
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(Path(training.__file__).parents[1])}
    script = str(Path(__file__).with_name("hostile_run.py"))
    done = subprocess.run([sys.executable, script, str(folder)], capture_output=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert not os.listdir(scratch)
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_gives_a_sentence_or_a_dataset_in_bounded_time_and_memory(outcomes, name):
    message, seconds, made = outcomes[name]
    assert "Traceback" not in message
    assert re.search(CASES[name].message, message, re.DOTALL) if CASES[name].message else not message
    assert len(message) < 1000 and "\n" not in message
    assert seconds < 10  # of a core; a file that hangs is ended after a minute of the clock, with a message
    assert made == (not message)
