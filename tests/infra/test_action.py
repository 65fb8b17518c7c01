"""The action for GitHub and the hook: their shell runs for real, in a repository of git, against an API on loopback."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
JOB = """\
displayName: fit
jobSpec:
  scheduling: {timeout: 3600s}
  workerPoolSpecs:
  - machineSpec: {machineType: g2-standard-8, acceleratorType: NVIDIA_L4, acceleratorCount: 1}
    replicaCount: 1
    containerSpec: {imageUri: gcr.io/p/i}
"""
WRONG = JOB.replace("Count: 1}", "Count: 3}")


class Runner:
    """A runner's machine: a checkout of a pull request's merge commit, and the action's folder."""

    def __init__(self, folder: Path) -> None:
        self.temp, self.checkout = folder / "temp", folder / "checkout"
        self.action = folder / "_actions/owner/name/v1"
        self.action.parent.mkdir(parents=True)
        self.action.symlink_to(ROOT)
        command = self.temp / "pipelines-check/python/bin/vgp"
        command.parent.mkdir(parents=True)
        # The installed command: `-P`, so that nothing of the checkout is imported.
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m vgp "$@"\n')
        command.chmod(0o755)
        self.checkout.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *words], cwd=self.checkout, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, **files: str | None) -> str:
        for name, text in files.items():
            path = self.checkout / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def merged(self, **files: str | None) -> dict[str, str]:
        """A pull request with these files, merged as GitHub does for its runs; the variables of the run."""
        base = self.git("rev-parse", "main")
        self.git("checkout", "-q", "-b", "change")
        self.commit(**files)
        self.git("checkout", "-q", "--detach", "main")
        self.git("merge", "-q", "--no-ff", "-m", "m", "change")
        return {"BASE_SHA": base, "GITHUB_SHA": self.git("rev-parse", "HEAD")}

    def check(self, code: int = 0, **variables: str) -> tuple[dict[str, str], str]:
        """Runs the step; its outputs, and what it printed."""
        outputs, summary = self.temp / "outputs", self.temp / "summary"
        outputs.unlink(missing_ok=True)
        given = dict.fromkeys(("PATHS", "BEFORE", "REGIONS", "IGNORE", "BASE_SHA"), "") | variables
        done = subprocess.run(
            [str(self.action / "scripts/action/check.sh")], cwd=self.checkout, capture_output=True, text=True,
            env={
                "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "ACTION_PATH": str(self.action),
                "RUNNER_TEMP": str(self.temp), "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_SERVER_URL": "https://github.com", **given,
            },
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        printed = done.stdout + done.stderr
        lines = outputs.read_text().splitlines() if outputs.exists() else []
        return dict(line.split("=", 1) for line in lines), printed


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    runner = Runner(tmp_path)
    runner.commit(job_yaml=JOB, old_yaml=JOB, values_yaml="a: {{ b }}\n", notes_md="x")
    return runner


def test_a_pull_request_is_judged_and_compared_with_what_it_goes_into(runner: Runner) -> None:
    strange = "-o$(touch pwned)\n::error::x"
    event = runner.merged(job_yaml=WRONG, old_yaml=None, **{f"sub__{strange}_yaml": JOB}, values_yaml="b: {{ c }}\n")
    runner.git("checkout", "-q", "main")
    runner.commit(later_yaml=JOB)  # of others, since then
    runner.git("checkout", "-q", "--detach", event["GITHUB_SHA"])
    outputs, printed = runner.check(**event)
    assert outputs["exit-code"] == "1"
    comment = Path(outputs["comment"]).read_text()
    assert comment == (runner.temp / "summary").read_text()
    assert "`1 x NVIDIA_L4` → `3 x NVIDIA_L4`" in comment and "`old.yaml`, gone" in comment
    assert "later.yaml" not in comment and "values.yaml" not in comment and "touch pwned" in comment
    (run,) = json.loads(Path(outputs["sarif"]).read_text())["runs"]
    assert {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]} >= {
        "job.yaml"
    }
    rule = run["tool"]["driver"]["rules"][0]
    assert rule["helpUri"] == f"https://github.com/owner/name/blob/v1/docs/reference/rules/{rule['id']}.md"
    assert not list(runner.checkout.rglob("pwned")) and runner.git("status", "--porcelain") == ""
    token = re.search(r"^::stop-commands::([0-9a-f]{32})$", printed, re.MULTILINE)
    assert token and printed.index("GPU003") < printed.index(f"\n::{token[1]}::\n")


def test_a_pull_request_that_changes_no_request_is_reported(runner: Runner) -> None:
    event = runner.merged(notes_md="y")
    outputs, _ = runner.check(**event)
    assert outputs["exit-code"] == "0" and json.loads(Path(outputs["sarif"]).read_text())["runs"][0]["results"] == []
    assert "No file that could ask for a machine is changed." in Path(outputs["comment"]).read_text()
    outputs, _ = runner.check(PATHS="old.yaml\n\nvalues.yaml\n", **event)
    assert "Unchanged: 1 file." in Path(outputs["comment"]).read_text()


def test_a_checkout_without_the_state_before_names_the_missing_option(runner: Runner) -> None:
    _, printed = runner.check(code=2, BASE_SHA="0" * 40, GITHUB_SHA=runner.git("rev-parse", "HEAD"))
    assert "Give actions/checkout fetch-depth: 2." in printed


def test_elsewhere_all_is_judged_and_nothing_compared(runner: Runner) -> None:
    runner.commit(job_yaml=WRONG)
    outputs, printed = runner.check(IGNORE="GPU003 GPU005", REGIONS="us-central1 europe-west4")
    assert "comment" not in outputs and "2 machine requests" in printed
    assert outputs["exit-code"] == "0" and "GPU003" not in printed


def test_a_request_that_cannot_be_read_fails_the_job_and_stands_in_the_comment(runner: Runner) -> None:
    event = runner.merged(run_sh="gcloud ai custom-jobs create --config=$JOB 2>&1 | tee log\n", job_yaml=f"{JOB}a: [\n")
    outputs, printed = runner.check(**event)
    assert outputs["exit-code"] == "2" and printed.count("[GPU031]") == 2
    (run,) = json.loads(Path(outputs["sarif"]).read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["GPU031", "GPU031"]
    comment = Path(outputs["comment"]).read_text()
    assert "run.sh:1" in comment and "job.yaml:" in comment and "is not judged" in comment


class Api(BaseHTTPRequestHandler):
    """Comments of one pull request, by https://docs.github.com/en/rest/issues/comments"""

    comments: list[dict[str, Any]]
    written: list[str]
    refuse = False

    def do_GET(self) -> None:
        page = int(parse_qs(urlsplit(self.path).query)["page"][0])
        self._answer(200, self.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        assert self.path == "/repos/o/r/issues/7/comments"
        self._write({"id": 1000 + len(self.comments), "user": {"type": "Bot"}}, 201)

    def do_PATCH(self) -> None:
        number = int(self.path.removeprefix("/repos/o/r/issues/comments/"))
        self._write(next(comment for comment in self.comments if comment["id"] == number), 200)

    def _write(self, comment: dict[str, Any], status: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if self.refuse or self.headers["Authorization"] != "Bearer secret":
            return self._answer(403, {"message": "Resource not accessible by integration"})
        self.written.append(self.command)
        comment["body"] = body
        if comment not in self.comments:
            self.comments.append(comment)
        self._answer(status, comment)

    def _answer(self, status: int, content: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[tuple[type[Api], str]]:
    people = [{"id": number, "user": {"type": "User"}, "body": "hello"} for number in range(150)]
    served = type("Served", (Api,), {"comments": people, "written": []})
    server = HTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield served, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def comment(file: Path, url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "scripts/action/comment.py"), str(file)], capture_output=True, text=True,
        env={"TOKEN": "secret", "PULL_REQUEST": "7", "GITHUB_API_URL": url, "GITHUB_REPOSITORY": "o/r"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_one_comment_which_is_edited_and_a_persons_is_left_alone(
    tmp_path: Path, api: tuple[type[Api], str]
) -> None:
    served, url = api
    file = tmp_path / "comment.md"
    file.write_text("first\n")
    comment(file, url)
    marker = served.comments[-1]["body"].splitlines()[0]
    assert marker.startswith("<!--")
    served.comments.insert(0, {"id": 5000, "user": {"type": "User"}, "body": f"{marker}\nmine"})
    comment(file, url)
    file.write_text("line\n" * 20_000)
    comment(file, url)
    assert served.written == ["POST", "PATCH"], "the same text is not written again"
    assert len(served.comments) == 152 and served.comments[0]["body"].endswith("mine")
    assert len(served.comments[-1]["body"]) <= 65_536 and "The rest is in" in served.comments[-1]["body"]


def test_a_token_that_may_not_write_is_a_warning(tmp_path: Path, api: tuple[type[Api], str]) -> None:
    served, url = api
    served.refuse = True
    (tmp_path / "comment.md").write_text("text")
    printed = comment(tmp_path / "comment.md", url)
    assert printed.startswith("::warning::") and "pull-requests: write" in printed and "secret" not in printed


def test_no_text_of_strangers_reaches_a_shell_and_actions_are_pinned() -> None:
    for step in STEPS:
        assert "${{" not in step.get("run", ""), step
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    text = (ROOT / "action.yml").read_text()
    assert "secrets." not in text and "pull_request_target" not in text
    assert re.search(r"setup-python@\w{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE)
    ours = set(re.findall(r"setup-python@\w{40}", text))
    assert ours == set(re.findall(r"setup-python@\w{40}", (ROOT / ".github/workflows/ci.yml").read_text()))


def test_every_variable_that_the_scripts_read_is_given_by_the_action_or_the_runner() -> None:
    given = {name for step in STEPS for name in step.get("env", {})}
    runners = {"RUNNER_TEMP", "GITHUB_SHA", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_SERVER_URL"}
    runners |= {
        "GITHUB_API_URL",
        "GITHUB_REPOSITORY",
        "BASH_REMATCH",
        "GIT_INDEX_FILE",
        "PAGES",
        "A_PAGE",
        "MARKER",
        "MOST",
    }
    scripts = "".join(path.read_text() for path in (ROOT / "scripts/action").iterdir() if path.is_file())
    read = set(re.findall(r"\$\{?([A-Z_]{2,})", scripts)) | set(re.findall(r"environ\['([A-Z_]+)'\]", scripts))
    assert read - runners <= given and given - {"CODE", "COMMENT"} <= read | {"TOKEN"}


def test_the_hook_takes_the_files_that_the_check_reads() -> None:
    from vgp.check.document_kinds import SUFFIXES, is_checked

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["language"] == "python" and hook["entry"] == "vgp check --skip-others"
    assert all(re.search(hook["files"], f"a/b{suffix}") for suffix in SUFFIXES)
    names = ("Makefile", "a/GNUmakefile", "Dockerfile", "a/Dockerfile.gpu", "a/gpu.Dockerfile", "a/b.md", "a/README")
    assert [bool(re.search(hook["files"], name)) for name in names] == [is_checked(name) for name in names]
