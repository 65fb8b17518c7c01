"""Runs the console blocks of the pages, and compares what the commands print with what the pages show."""

import argparse
import difflib
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from .output import matches, renew
from .page import File, Page, read_page
from .workplace import REPOSITORY, open_workplace

INTERNAL = REPOSITORY / "docs/internals"
#: The status that a command is expected to end with, at its end.
_STATUS = re.compile(r"# exit (\d+)$")


def list_pages() -> list[Path]:
    """Returns the README and every page of the site."""
    pages = sorted((REPOSITORY / "docs").rglob("*.md"))
    return [REPOSITORY / "README.md", *(path for path in pages if INTERNAL not in path.parents)]


def run_page(page: Page, cache: Path) -> tuple[list[list[str]], list[str]]:
    """Runs the commands of a page in order.

    Returns:
        The lines that the page should show below each command, and what differs, as lines.
    """
    outputs: list[list[str]] = []
    problems: list[str] = []
    with open_workplace(page.options, cache) as place:
        for part in page.parts:
            if isinstance(part, File):
                place.write(part)
                continue
            printed, status = place.run(part.text)
            shown = part.shown
            if matches(shown, printed):
                outputs.append(shown)
            else:
                outputs.append(renew(shown, printed))
                problems.append(f"line {part.line}: $ {part.text}")
                problems += list(difflib.unified_diff(shown, printed, "page", "printed", lineterm=""))
            expected = _STATUS.search(part.text)
            if status != int(expected[1] if expected else 0):
                problems += [f"line {part.line}: $ {part.text}", f"exit status {status}", *printed[-15:]]
    return outputs, problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all")
    parser.add_argument("--write", action="store_true", help="write what the commands print into the pages")
    parser.add_argument("--fast", action="store_true", help="skip pages that are marked slow or cloud")
    options = parser.parse_args()
    failures = 0
    with TemporaryDirectory(prefix="docs-cache-") as cache:
        for path in options.pages or list_pages():
            page, started = read_page(path), time.monotonic()
            if not page.commands or (options.fast and not page.is_fast):
                continue
            outputs, problems = run_page(page, Path(cache))
            if options.write:
                path.write_text(page.with_outputs(outputs))
            failures += bool(problems)
            word = "FAILED" if problems else "passed"
            print(f"{word}  {time.monotonic() - started:6.1f} s  {len(page.commands):3} commands  {path}", flush=True)
            for line in problems:
                print(f"    {line}", flush=True)
    print(f"{failures} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
