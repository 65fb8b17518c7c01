"""The pages as a whole: links, menu, length, generated parts, terms."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.docs import reference
from tools.docs.__main__ import INTERNAL, REPOSITORY, list_pages
from tools.docs.site import DOCS, format_llms_txt, read_heading, read_menu

PAGES = list_pages()
SITE = [path for path in PAGES if DOCS in path.parents]
#: Words of each tab; all together have at most 40,000.
BUDGETS = {"Start": 1_700, "Tutorials": 7_200, "How-to": 13_500, "Reference": 14_800, "Explanation": 5_500}
LONGEST = 1_700


def name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def count_words(path: Path) -> int:
    """Returns the number of words with a letter or digit: the bars of a table are none."""
    return sum(bool(re.search(r"\w", word)) for word in path.read_text().split())


def prose(path: Path) -> str:
    """Returns the page without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", path.read_text())


def anchors(path: Path) -> Iterator[str]:
    """Yields the anchors of the page's headings, as GitHub and the site write them."""
    for heading in re.findall(r"(?m)^#+ (.+)$", prose(path)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "infra/README.md"], ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"https?:|mailto:", link):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or target.suffix != ".md" or anchor in anchors(target), link
            assert page not in SITE or (DOCS in target.parents and INTERNAL not in target.parents), (
                f"{link} leaves the site"
            )


def test_the_menu_has_every_page_once() -> None:
    menu = [page for pages in read_menu().values() for page in pages]
    assert sorted(menu) == sorted(path.relative_to(DOCS).as_posix() for path in SITE)


@pytest.mark.parametrize("tab", BUDGETS)
def test_a_tab_keeps_to_its_words(tab: str) -> None:
    words = {page: count_words(DOCS / page) for page in read_menu()[tab]}
    assert sum(words.values()) <= BUDGETS[tab], words
    longest = {page: number for page, number in words.items() if page not in reference.GENERATORS}
    assert max(longest.values()) <= LONGEST, longest


def test_all_pages_together_have_at_most_40_000_words() -> None:
    assert sum(map(count_words, SITE)) <= 40_000


@pytest.mark.parametrize("page", SITE, ids=name)
def test_a_page_has_one_title_and_a_purpose(page: Path) -> None:
    title, purpose = read_heading(page.relative_to(DOCS).as_posix())
    assert title and len(re.findall(r"(?m)^# ", prose(page))) == 1
    assert purpose[0] not in "#|-<!" and not purpose.startswith("```")


def test_llms_txt_names_every_page() -> None:
    text = format_llms_txt()
    assert all(f"]({path.relative_to(DOCS).as_posix()})" in text for path in SITE)


def test_terms_in_bold_are_in_the_glossary() -> None:
    terms = set(re.findall(r"\*\*([^*]+)\*\*", (DOCS / "reference/glossary.md").read_text()))
    bold = {
        term.lower() for path in SITE for term in re.findall(r"(?<=\w )\*\*([a-z][\w -]*)\*\*(?= ?[\w,.])", prose(path))
    }
    assert bold - terms == set()
