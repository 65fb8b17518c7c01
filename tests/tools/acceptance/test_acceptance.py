"""The acceptance on the loopback cloud: all as expected, nothing left behind, no name in the transcript; and the
transcripts of earlier ones, read as data."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.acceptance import transcript, workflows
from tools.acceptance.__main__ import STEPS, accept, confirm, main
from tools.acceptance.cloud import Cloud as Acceptance
from tools.acceptance.cloud import clean
from tools.emulator.acceptance import add_scripts
from tools.emulator.cloud import Cloud
from tools.emulator.faults import status
from vgp.base.clock import Clock
from vgp.base.errors import RequestError
from vgp.settings import Settings, load
from vgp.vertex import clients
from vgp.vertex.google_errors import advice

RUNNER = "runner@test-project.iam.gserviceaccount.com"
NETWORK = "projects/123456789012/global/networks/own"
REPOSITORY = Path(__file__).parents[3]
TRANSCRIPTS = sorted((REPOSITORY / "tools/acceptance/transcripts").glob("*.jsonl"))
CHECKS = {
    "error-act-as", "error-not-found", "quota-names", "sigterm", "non-root-gcs", "artifact-from-job", "placeholders",
    "cache-parameters", "cache-artifacts", "list-details", "list-prefix", "loop-iterations", "schedule-listed",
    "schedule-cron", "no-schedule", "exit-step", "second-exit-step", "schedule-tick", "step-timeout",
    "step-retries", "driver",
}  # fmt: skip


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud that does not look at our table of permissions: only the acceptance deletes runs and jobs."""
    with Cloud() as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        yield cloud
        assert not cloud.crashed


@pytest.fixture(autouse=True)
def signed_in() -> Iterator[None]:
    clients.credentials.cache_clear()
    yield
    clients.credentials.cache_clear()


@pytest.fixture
def furnished(cloud: Cloud) -> Cloud:
    add_scripts(cloud)
    return cloud


def test_it_passes_on_the_loopback_cloud_and_leaves_nothing_but_its_transcript(
    furnished: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    furnished.clock.run(2000)
    words = ["acceptance.sh", "test-project", "--yes", "--public", "--poll", "0.05", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setenv("PIPELINES_SERVICE_ACCOUNT", RUNNER)
    monkeypatch.setenv("PIPELINES_NETWORK", NETWORK)
    assert main() == 0
    printed = capsys.readouterr().out
    assert printed.index("At most $") < printed.index("started acceptance-")
    (path,) = tmp_path.glob("*.jsonl")
    about, rows = transcript.read(path)
    assert {row.check for row in rows} == CHECKS and about["region"] == "us-central1"
    assert {row.verdict for row in rows} == {transcript.AS_EXPECTED}, [str(row) for row in rows]
    for text in (path.read_text(), path.with_suffix(".txt").read_text()):
        assert not any(name in text for name in ("test-project", "123456789012", "test-bucket", "gserviceaccount"))
    assert is_empty(furnished)


def test_what_an_interrupted_one_made_is_deleted(furnished: Cloud) -> None:
    def interrupted(line: str) -> None:
        if line.endswith("-late"):
            raise KeyboardInterrupt

    settings = load().model_copy(update={"steps": STEPS})
    theirs = Acceptance(settings, "20260101-000000-aaaa", CloudClock(furnished), 10, print)
    specs = workflows.specs(settings, public=True, gpu=False)
    theirs.start("stop", specs["stop"])
    with pytest.raises(KeyboardInterrupt):
        accept(Acceptance(settings, "20260101-000001-bbbb", CloudClock(furnished), 10, interrupted), specs)
    assert [name.rpartition("/")[2] for name in furnished.jobs] == ["acceptance-20260101-000000-aaaa-stop"]
    clean(theirs, "*")
    assert is_empty(furnished)


def test_a_run_whose_job_cannot_be_deleted_stays_and_is_named(furnished: Cloud) -> None:
    settings = load().model_copy(update={"steps": STEPS})
    acceptance = Acceptance(settings, "20260101-000000-aaaa", CloudClock(furnished), 10, print)
    run = acceptance.start("stop", workflows.specs(settings, public=True, gpu=False)["stop"])
    acceptance.wait_until(lambda: any(step.jobs for step in acceptance.read_run(run).steps), minutes=15)
    furnished.fail("aiplatform.projects.locations.customJobs.delete", *[status(400, "the job is being cancelled")] * 2)
    (left,) = clean(acceptance)
    assert left.startswith("customJobs/") and "being cancelled" in left and furnished.jobs
    assert not clean(acceptance) and is_empty(furnished)


def test_the_script_prints_its_usage() -> None:
    ended = subprocess.run(["bash", "scripts/acceptance.sh"], cwd=REPOSITORY, capture_output=True, text=True)
    assert ended.returncode == 2 and "scripts/acceptance.sh PROJECT" in ended.stderr


def is_empty(cloud: Cloud) -> bool:
    objects = cloud.storage.ask("GET", "/storage/v1/b/test-bucket/o?prefix=acceptance/")[2]
    return not (cloud.jobs or cloud.schedules or cloud.custom_jobs.jobs or b'"items"' in objects)


class CloudClock(Clock):
    """Waiting moves the loopback cloud's time on, and takes none of ours."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def now(self) -> float:
        return self.cloud.clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.cloud.clock.advance(seconds)


def test_without_a_yes_nothing_is_started_and_the_cost_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError, match="nothing was started: answer y, or give --yes"):
        confirm(Settings(project="test-project", bucket="gs://own-bucket"), {}, yes=False)
    assert "At most $0.00 for machines and $0.03 for runs" in capsys.readouterr().out


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_earlier_transcripts_saw_is_what_this_tool_knows(path: Path) -> None:
    about, rows = transcript.read(path)
    seen = {row.check: row for row in rows}
    assert about["stamp"] == path.stem and seen.keys() <= CHECKS
    for row in rows:
        assert row.verdict in (transcript.AS_EXPECTED, transcript.DIFFERENT, transcript.UNKNOWN)
        assert str(row) == transcript.redact(str(row), [])
    code, _, message = seen["error-act-as"].seen.partition(": ")
    assert advice(message, Settings(project="my-project"), code=int(code))


def test_a_transcript_holds_no_names() -> None:
    text = (
        "projects/my-project/locations/us-central1/customJobs/5000000000000000001 of me@my-corp.com in gs://my-bucket, "
        "Bearer ya29.secret, projects/p/locations/r/keyRings/ring/cryptoKeys/key, networks/private"
    )
    left = transcript.redact(text, ["my-project", "my-bucket"])
    for name in ("my-", "5000000000000000001", "me@", "secret", "ring/", "private"):
        assert name not in left
    assert "locations/us-central1/customJobs/NUMBER" in left
