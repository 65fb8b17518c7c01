"""What a launcher (vgp/launch/capacity) and its job (vgp/protocol/capacity) exchange."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from vgp.base.clock import Clock
from vgp.base.exits import Preempted
from vgp.launch.capacity import journal
from vgp.launch.capacity import situation as progress
from vgp.launch.capacity.situation import at_risk_s
from vgp.protocol import environment
from vgp.protocol.capacity import control as job
from vgp.protocol.capacity import ladder
from vgp.protocol.capacity import progress as job_progress
from vgp.protocol.capacity.watcher import require_turn

DATA = Path(__file__).parents[1] / "data"
NAMES = ("ladder.json", "heartbeat.json", "progress.json")
LADDER, HEARTBEAT, PROGRESS = (json.loads((DATA / name).read_text()) for name in NAMES)
#: The attempt of the examples that runs while the heartbeat and the progress are written.
TOKEN = LADDER["attempts"][-1]["token"]


def shape(document: object) -> object:
    """Names and kinds of values: a number is one, however it is written."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    return float if isinstance(document, int | float) else type(document)


def test_a_job_takes_its_folder_and_attempt_from_the_variables_that_its_launcher_sets():
    names = (environment.CONTROL_FOLDER, environment.ATTEMPT)
    assert job.read_control({names[0]: "gs://b/f", names[1]: TOKEN}) == job.Control("gs://b/f", TOKEN)


def test_the_documents_have_one_name_and_one_format_on_both_sides():
    control = job.Control("f", TOKEN)
    assert (control.heartbeat, control.progress) == (f"f/{journal.HEARTBEAT_NAME}", f"f/{progress.NAME}")
    assert {document["format"] for document in (LADDER, HEARTBEAT, PROGRESS)} == {job.FORMAT, ladder.FORMAT}


def test_a_job_understands_the_heartbeat_as_its_launcher_writes_it(tmp_path):
    beating = journal.Heartbeat(None, Clock(), print, HEARTBEAT["term"], HEARTBEAT["every_s"], HEARTBEAT["orphan_s"])
    beating.attempt = TOKEN
    assert shape(beating._content()) == shape(HEARTBEAT)
    shutil.copy(DATA / journal.HEARTBEAT_NAME, tmp_path)
    assert require_turn(job.Control(str(tmp_path), TOKEN)).orphan_s == HEARTBEAT["orphan_s"]
    with pytest.raises(Preempted):
        require_turn(job.Control(str(tmp_path), LADDER["attempts"][0]["token"]))


def test_a_launcher_understands_the_progress_as_the_job_writes_it(tmp_path):
    reporter = job_progress.Reporter(job.Control(str(tmp_path), TOKEN), every_s=0.01, least_s=0.01)
    figures = {name: PROGRESS[name] for name in asdict(job_progress.Progress())}
    reporter.update(job_progress.Progress(**figures))
    reporter.close()
    written = json.loads((tmp_path / progress.NAME).read_text())
    assert shape(written) == shape(PROGRESS) and {**written, "at": PROGRESS["at"]} == PROGRESS
    report = progress.parse_progress(written)
    assert report and {name: value for name, value in PROGRESS.items() if name in asdict(report)} == asdict(report)
    known = ladder.Ladder.from_json(LADDER)
    assert (known.attempts[-1].token, at_risk_s(known, report)) == (TOKEN, 60 * 10.5)
    begun = progress.parse_progress(written | dict.fromkeys(progress.FIGURES, 0.0))
    assert begun and begun.seconds_per_step is begun.checkpoint_every_s is None, "0 means: not known yet"
