"""Builds the site of docs/ with Zensical, strictly, and puts llms.txt and each page's Markdown beside it.

https://zensical.org/docs; https://llmstxt.org describes llms.txt.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
DOCS, SITE, CONFIGURATION = REPOSITORY / "docs", REPOSITORY / "build/site", REPOSITORY / "zensical.toml"


def read_menu() -> dict[str, list[str]]:
    """Returns the pages below docs/ of each tab, in the order of the menu."""
    nav = tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]
    return {tab: list(_pages(entries)) for group in nav for tab, entries in group.items()}


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for child in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(child)


def read_heading(page: str) -> tuple[str, str]:
    """Returns the page's title and the sentence below it."""
    title, paragraph = re.sub(r"<!--.*?-->\n*", "", (DOCS / page).read_text()).split("\n\n")[:2]
    return title.removeprefix("# "), re.split(r"(?<=\.)\s", " ".join(paragraph.split()))[0]


def format_llms_txt() -> str:
    """Returns llms.txt: each page of the site with its purpose, by tab."""
    title, purpose = read_heading("index.md")
    lines = [f"# {title}", "", f"> {purpose}"]
    for tab, pages in read_menu().items():
        lines += ["", f"## {tab}", ""]
        lines += ["- [{1}]({0}): {2}".format(page, *read_heading(page)) for page in pages]
    return "\n".join(lines) + "\n"


def main() -> None:
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=REPOSITORY, check=True)
    for page in (page for tab in read_menu().values() for page in tab):
        shutil.copy2(DOCS / page, SITE / page)
    (SITE / "llms.txt").write_text(format_llms_txt())


if __name__ == "__main__":
    main()
