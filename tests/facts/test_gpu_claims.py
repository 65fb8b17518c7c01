"""Every speed on a GPU in the docs is a row of the GPU hour's transcript, or is called an estimate."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.gpu_hour.parts import SLICES
from tools.gpu_hour.transcript import find_names, redact

REPOSITORY = Path(__file__).parents[2]
TRANSCRIPT = REPOSITORY / "docs/internals/gpu-hour.json"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
GPU = re.compile(r"\b(GPUs?|CUDA|MFU|GB[23]00|[ABH][1-3]00|L4|L40S?|T4|V100)\b")
SPEED = re.compile(r"\bMFU \d|\d (tokens|steps|rows|samples|images)/s|\d TFLOP")


def rows() -> dict[str, dict]:
    """Returns the transcript's rows by name; none without a transcript."""
    slices = json.loads(TRANSCRIPT.read_text())["slices"] if TRANSCRIPT.exists() else []
    return {row["row"]: row for entry in slices for row in entry["rows"]}


def find_unfounded(text: str, names: set[str]) -> Iterator[str]:
    """Yields the headings of the sections that give a speed on a GPU without a row's name or the word estimate."""
    for section in re.split(r"(?m)^(?=#)", re.sub(r"(?ms)^ *```.*?^ *```$", "", text)):
        named = names & set(re.findall(r"`([^`]+)`", section))
        if GPU.search(section) and SPEED.search(section) and not named and "estimate" not in section.lower():
            yield section.partition("\n")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_a_speed_on_a_gpu_has_a_row_or_is_an_estimate(page: Path) -> None:
    assert list(find_unfounded(page.read_text(), set(rows()))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Speed\nOn an H100: 562,785 tokens/s, MFU 35.5 %", ["# Speed"]),
        ("# Speed\nOn an H100, an estimate: 562,785 tokens/s", []),
        ("# Speed\nOn an H100 (`fast/table/ours`): 200 steps/s\n## Next\nOn a GPU 300 steps/s", ["## Next"]),
        ("# Speed\nOn two cores: 200 steps/s", []),
        ("# Speed\nOn a GPU\n```\n200 steps/s\n```\n", []),
    ],
)
def test_a_section_without_a_row_and_without_the_word_is_found(text: str, found: list[str]) -> None:
    assert list(find_unfounded(text, {"fast/table/ours"})) == found


@pytest.mark.skipif(not TRANSCRIPT.exists(), reason="no GPU hour has been committed")
def test_the_transcript_is_of_a_gpu_has_every_slice_and_no_names() -> None:
    document = json.loads(TRANSCRIPT.read_text())
    assert [entry["slice"] for entry in document["slices"]] == list(SLICES)
    assert not any(entry["on_cpu"] for entry in document["slices"])
    assert redact(document, find_names()) == document
    assert [name for name, row in rows().items() if row["verdict"] == "fails"] == []
