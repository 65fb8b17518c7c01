"""Writes the one comment of a pull request: `comment.py FILE`; found again by its marker, it is edited.

Reads TOKEN, PULL_REQUEST, GITHUB_API_URL and GITHUB_REPOSITORY. A token that may not write, as that of a fork's pull
request, is a warning: the text is in the job's summary. https://docs.github.com/en/rest/issues/comments
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MARKER = "<!-- vertex-gpu-pipelines: machines and cost -->"
#: A comment's characters, and comments that are looked through: GitHub shows no pull request with more.
MOST, PAGES, A_PAGE = 65_536, 100, 100


def main(file: str) -> None:
    body = f"{MARKER}\n{Path(file).read_text(encoding='utf-8')}"
    if len(body) > MOST:
        body = body[: MOST - 100].rpartition("\n")[0] + "\n\nThe rest is in the job's summary.\n"
    repository = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    comments = f"{repository}/{int(os.environ['PULL_REQUEST'])}/comments"
    try:
        ours = find(comments)
        if ours is None:
            request("POST", comments, {"body": body})
        elif ours["body"].replace("\r\n", "\n").strip() != body.strip():
            request("PATCH", f"{repository}/comments/{int(ours['id'])}", {"body": body})
    except (urllib.error.URLError, TimeoutError) as error:
        rights = (
            " The job needs the permission pull-requests: write." if getattr(error, "code", 0) in (403, 404) else ""
        )
        print(f"::warning::The comment could not be written: {error}.{rights} Its text is in the job's summary.")


def find(comments: str) -> dict[str, Any] | None:
    """Our comment, the oldest; what a person wrote with our marker in it is theirs."""
    for page in range(1, PAGES + 1):
        found = request("GET", f"{comments}?per_page={A_PAGE}&page={page}")
        for comment in found:
            if comment["user"]["type"] == "Bot" and comment["body"].startswith(MARKER):
                return comment
        if len(found) < A_PAGE:
            break
    return None


def request(method: str, path: str, content: dict[str, str] | None = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    asked = urllib.request.Request(os.environ["GITHUB_API_URL"] + path, data, method=method)
    asked.add_header("Accept", "application/vnd.github+json")
    asked.add_header("X-GitHub-Api-Version", "2022-11-28")
    asked.add_header("Content-Type", "application/json")
    # Not for another host, where an answer leads to one.
    asked.add_unredirected_header("Authorization", f"Bearer {os.environ['TOKEN']}")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
