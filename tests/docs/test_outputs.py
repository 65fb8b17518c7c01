"""The fast pages print what they show. All pages: `python -m tools.docs`, in CI."""

from pathlib import Path

import pytest

from tools.docs.__main__ import list_pages, run_page
from tools.docs.output import matches, renew
from tools.docs.page import Command, File, read_page

FAST = [page for path in list_pages() if (page := read_page(path)).is_fast]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("docs")


@pytest.mark.parametrize("page", FAST, ids=lambda page: page.path.stem)
def test_the_commands_of_a_page_print_what_it_shows(page, cache: Path) -> None:
    _, problems = run_page(page, cache)
    assert not problems, "\n".join(problems)


def test_a_page_that_shows_another_output_fails_and_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text('# Page\n\n<!-- run: folder=empty -->\n\n```text title="a.txt"\nx\n```\n\n'
                    "```console\n$ cat \\\n    a.txt\ny\n\n$ vgp compile  # exit 2\n```\n")  # fmt: skip
    page = read_page(path)
    assert page.parts[0] == File("a.txt", "x\n") and isinstance(page.parts[1], Command)
    outputs, problems = run_page(page, tmp_path)
    assert "+x" in problems and "-y" in problems
    path.write_text(page.with_outputs(outputs))
    assert "a.txt\nx\n\n$ vgp compile" in path.read_text()
    assert run_page(read_page(path), tmp_path)[1] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b", "a b", True),
        ("a b", "a", False),
        ("a ... c", "a b c", True),
        ("...|z", "x|y|z", True),
        ("a|...", "a", True),
        ("a|...|c|...", "a|b|c", True),
        ("a|...|c|...|e", "a|c|c|d|e", True),
        ("a|...|c", "a|b", False),
        ("a|...|a", "a", False),
        ("", "a", False),
    ],
)
def test_an_ellipsis_stands_for_any_text_or_lines(shown: str, printed: str, same: bool) -> None:
    assert matches(shown.split("|") if shown else [], printed.split("|")) is same


def test_a_renewed_output_keeps_the_elisions_that_still_fit() -> None:
    shown, printed = ["took ... s", "...", "total 5"], ["took 3 s", "b", "c", "total 6"]
    assert renew(shown, printed) == ["took ... s", "...", "total 6"]
    assert renew([], [str(number) for number in range(20)])[-2:] == ["13", "..."]
