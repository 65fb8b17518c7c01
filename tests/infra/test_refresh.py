"""The pull request of a refresh: the script runs for real in a repository of git, against an API on loopback."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Api(BaseHTTPRequestHandler):
    """Branches, commits and pull requests, by https://docs.github.com/en/rest/git and /pulls"""

    refs: dict[str, str]
    pulls: list[dict[str, Any]]
    trees: list[dict[str, Any]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.startswith("/repos/o/r/git/commits/"):
            return self._answer(200, {"tree": {"sha": f"tree-of-{url.path[-40:]}"}})
        query = parse_qs(url.query)
        assert url.path == "/repos/o/r/pulls" and query == {
            "state": ["open"], "head": ["o:refresh-catalog"], "base": ["main"],
        }  # fmt: skip
        self._answer(200, [pull for pull in self.pulls if pull["state"] == "open"])

    def do_POST(self) -> None:
        content, path = self._content(), self.path.removeprefix("/repos/o/r")
        if path == "/git/trees":
            self.trees.append(content)
            return self._answer(201, {"sha": f"tree{len(self.trees)}"})
        if path == "/git/commits":
            return self._answer(201, {"sha": f"commit-of-{content['tree']}-on-{content['parents'][0]}"})
        if path == "/git/refs":
            self.refs[content["ref"]] = content["sha"]
            return self._answer(201, {})
        assert path == "/pulls" and f"refs/heads/{content['head']}" in self.refs
        self.pulls.append({"number": 7, "state": "open", "html_url": "https://example/7", **content})
        self._answer(201, self.pulls[-1])

    def do_PATCH(self) -> None:
        content, path = self._content(), self.path.removeprefix("/repos/o/r")
        if path.startswith("/git/refs/"):
            ref = path.removeprefix("/git/")
            if ref not in self.refs:
                return self._answer(422, {"message": "Reference does not exist"})
            assert content["force"] is True
            self.refs[ref] = content["sha"]
            return self._answer(200, {})
        assert path == "/pulls/7"
        self.pulls[-1].update(content)
        self._answer(200, self.pulls[-1])

    def _content(self) -> Any:
        assert self.headers["Authorization"] == "Bearer secret"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, status: int, content: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[tuple[type[Api], str]]:
    served = type("Served", (Api,), {"refs": {}, "pulls": [], "trees": []})
    server = HTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield served, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    data = tmp_path / "vgp/machines/catalog/data"
    data.mkdir(parents=True)
    (data / "prices.csv").write_text("a,1\n")
    (data / "prices.json").write_text("{}\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    shutil.copytree(data, tmp_path / "refreshed/data")
    return tmp_path


def open_pull_request(checkout: Path, url: str, report: str) -> subprocess.CompletedProcess[str]:
    (checkout / "refreshed/report").write_text(report)
    return subprocess.run(
        [sys.executable, "-I", str(ROOT / "scripts/refresh/pull_request.py"), "refreshed/report", "refreshed/data"],
        cwd=checkout,
        capture_output=True, text=True,
        env={
            "PATH": "/usr/bin:/bin", "TOKEN": "secret", "BASE": "main", "GITHUB_API_URL": url,
            "GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "0" * 40,
        },
    )  # fmt: skip


def opened(checkout: Path, url: str, report: str) -> str:
    done = open_pull_request(checkout, url, report)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_change_nothing_is_opened(checkout: Path, api: tuple[type[Api], str]) -> None:
    served, url = api
    assert "Nothing has changed." in opened(checkout, url, "0 differences.\n")
    assert not served.pulls and not served.refs


def test_a_change_becomes_a_pull_request_and_the_next_brings_it_up_to_date(
    checkout: Path, api: tuple[type[Api], str]
) -> None:
    served, url = api
    (checkout / "refreshed/data/prices.csv").write_text("a,2\n")
    (checkout / "refreshed/data/other.json").write_text("not of the catalog")
    assert "opened: https://example/7" in opened(checkout, url, "price of a: 1 -> 2\n``` @everyone\n")
    (pull,) = served.pulls
    assert (pull["head"], pull["base"]) == ("refresh-catalog", "main")
    assert "price of a: 1 -> 2\n''' @everyone\n```\n" in pull["body"]
    (entry,) = served.trees[0]["tree"]
    assert (entry["path"], entry["content"]) == ("vgp/machines/catalog/data/prices.csv", "a,2\n")
    assert served.trees[0]["base_tree"] == f"tree-of-{'0' * 40}"
    assert served.refs == {"refs/heads/refresh-catalog": f"commit-of-tree1-on-{'0' * 40}"}

    (checkout / "refreshed/data/prices.csv").write_text("a,3\n")
    assert "brought up to date" in opened(checkout, url, "price of a: 1 -> 3\n" * 10_000)
    assert len(served.pulls) == 1 and len(served.pulls[0]["body"]) <= 65_536
    assert "the rest is in the log of the job" in served.pulls[0]["body"]
    assert served.refs["refs/heads/refresh-catalog"].startswith("commit-of-tree2")


@pytest.mark.parametrize("kind", ["link", "folder", "missing", "large"])
def test_what_the_other_job_left_is_taken_as_text_of_the_files_that_are_known(
    checkout: Path, api: tuple[type[Api], str], kind: str
) -> None:
    served, url = api
    file = checkout / "refreshed/data/prices.csv"
    file.unlink()
    if kind == "link":
        (checkout / "secret").write_text("a,2\n")
        file.symlink_to(checkout / "secret")
    elif kind == "folder":
        file.mkdir()
    elif kind == "large":
        file.write_text("a" * 2_000_001)
    done = open_pull_request(checkout, url, "price of a: 1 -> 2\n")
    assert done.returncode == 1 and "prices.csv is no data file" in done.stderr and not served.trees
