"""Every setting that a page advises can be given in the way that it is written, and the table has them all."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.training import members
from vgp.check.spec.parameters import parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.train import reference
from vgp.train.config import TrainConfig, parse

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = REPOSITORY / "vgp/workflow/project/template/README.md"
PAGES = [REPOSITORY / "README.md", TEMPLATE, *sorted((REPOSITORY / "docs").glob("*.md"))]
SETTINGS = REPOSITORY / "docs/training-settings.md"
FORM = PipelineSpec.read(REPOSITORY / "tests/golden/training.json").parameters


def advised(page: Path) -> Iterator[str]:
    """What stands after each `--set` of a page for the pipeline `training`: in commands, and within a sentence."""
    text = page.read_text().replace("\\\n", " ")
    commands = re.findall(r"(?m)^(?:\$ )?(?:\.venv/bin/)?vgp \w+ training .*$", text)
    spans = [span for span in re.findall(r"`([^`\n]+)`", text) if span.startswith("--set ")]
    for line in (*commands, *spans):
        words = shlex.split(re.sub(r"\s#.*", "", line))
        yield from (value for option, value in zip(words, words[1:], strict=False) if option == "--set")


ADVISED = sorted(
    {(page.name, text) for page in PAGES for text in advised(page) if not text.endswith("=...") and "NAME" not in text}
)


@pytest.mark.parametrize(("page", "text"), ADVISED)
def test_a_setting_that_a_page_advises_is_taken(page: str, text: str) -> None:
    values = parse_arguments(FORM, [text], members)
    form = {name: value for name, value in values.items() if name in TrainConfig.model_fields}
    parse({"strategy": "fsdp", **form, **values.get("training_options", {})})


def test_there_are_some() -> None:
    assert len(ADVISED) > 20


def test_the_table_has_every_setting_as_it_is() -> None:
    """After a change: python -m vgp.steps settings, in place of the table."""
    assert SETTINGS.read_text().endswith(f"\n\n{reference.table()}")


def test_the_page_says_which_settings_have_a_field_of_their_own() -> None:
    (listed,) = re.findall(r"(?m)^In the pipeline's form: (.*)\. What", SETTINGS.read_text())
    assert set(re.findall(r"`(\w+)`", listed)) == FORM.keys() & TrainConfig.model_fields.keys()
    assert members()["training_options"] == TrainConfig.model_fields.keys() - {"task", "options"}
