"""Opens a pull request with the changes of a refresh, or updates the open one: `pull_request.py REPORT FOLDER`.

REPORT describes the changes; FOLDER has the new data files. Both come from a job without write access, and are only
read as text; a file is used only if the checkout of GITHUB_SHA has one of its name. Reads TOKEN, BASE, GITHUB_API_URL,
GITHUB_REPOSITORY and GITHUB_SHA. Without a change it opens nothing. It uses one branch and resets it at each refresh,
which drops other commits there. https://docs.github.com/en/rest/git
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

BRANCH = "refresh-catalog"
#: Where the data files lie in the repository.
HOME = "vgp/machines/catalog/data"
TITLE = "Catalog: prices and machine types of today"
#: Characters of a pull request's text on GitHub.
MOST = 65_536
#: Bytes of a data file; the largest has a tenth of that.
MOST_BYTES = 2_000_000


def main(report: str, folder: str) -> None:
    changed = changed_files(Path(folder))
    if not changed:
        print("Nothing has changed.")
        return
    branch(commit(changed))
    body = text(Path(report).read_text(encoding="utf-8"))
    owner = os.environ["GITHUB_REPOSITORY"].split("/")[0]
    head = urllib.parse.quote(f"{owner}:{BRANCH}")
    base = os.environ["BASE"]
    found = request("GET", f"/pulls?state=open&head={head}&base={urllib.parse.quote(base)}")
    if found:
        request("PATCH", f"/pulls/{int(found[0]['number'])}", {"body": body})
        print(f"brought up to date: {found[0]['html_url']}")
        return
    opened = request("POST", "/pulls", {"title": TITLE, "head": BRANCH, "base": base, "body": body})
    print(f"opened: {opened['html_url']}")


def changed_files(folder: Path) -> dict[str, str]:
    """Path in the repository -> new text, of the data files of the commit that are another in the folder."""
    command = ["git", "ls-tree", "-z", "--name-only", "HEAD", f"{HOME}/"]
    known = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    found = {}
    for name in filter(None, known):
        file = folder / Path(name).name
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_BYTES:
            raise SystemExit(f"error: {file} is no data file of at most {MOST_BYTES:,} bytes.")
        text = file.read_text(encoding="utf-8")
        if text != Path(name).read_text(encoding="utf-8"):
            found[name] = text
    return found


def commit(texts: dict[str, str]) -> str:
    """The id of a new commit on top of GITHUB_SHA, which no branch names yet."""
    parent = os.environ["GITHUB_SHA"]
    base = request("GET", f"/git/commits/{parent}")["tree"]["sha"]
    entries = [{"path": name, "mode": "100644", "type": "blob", "content": text} for name, text in texts.items()]
    tree = request("POST", "/git/trees", {"base_tree": base, "tree": entries})["sha"]
    made = request("POST", "/git/commits", {"message": TITLE, "tree": tree, "parents": [parent]})
    return str(made["sha"])


def branch(sha: str) -> None:
    """Lets our branch name the commit, whatever it named before."""
    try:
        request("PATCH", f"/git/refs/heads/{BRANCH}", {"sha": sha, "force": True})
    except urllib.error.HTTPError as error:
        if error.code not in (404, 422):
            raise
        request("POST", "/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": sha})


def text(report: str) -> str:
    """The difference as code, where GitHub reads neither links nor mentions, and what to look at."""
    head = (
        "Read from Cloud Billing and Compute Engine. Look at what moved far, and at machine types that are new: which\n"
        "of them custom training takes is in the documentation alone. A workflow's own pull request starts no other\n"
        "workflow: close and reopen it to run the tests.\n\n"
    )
    inside = report.replace("```", "'''")
    room = MOST - len(head) - 100
    if len(inside) > room:
        inside = inside[:room].rpartition("\n")[0] + "\n... the rest is in the log of the job"
    return f"{head}```\n{inside.rstrip()}\n```\n"


def request(method: str, path: str, content: dict[str, Any] | None = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}{path}"
    asked = urllib.request.Request(url, data, method=method)
    asked.add_header("Accept", "application/vnd.github+json")
    asked.add_header("X-GitHub-Api-Version", "2022-11-28")
    asked.add_header("Content-Type", "application/json")
    # Not for another host, where an answer leads to one.
    asked.add_unredirected_header("Authorization", f"Bearer {os.environ['TOKEN']}")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
