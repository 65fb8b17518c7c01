"""Every `vgp ...` of the pages is a command with existing options, and every `--set` an existing setting."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pipelines.training import members
from tools.docs.__main__ import REPOSITORY, list_pages
from vgp.__main__ import app
from vgp.check.spec.parameters import parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.train.train_config import TrainConfig, parse_config

TEMPLATE = REPOSITORY / "vgp/workflow/project/template/README.md"
PAGES = [*list_pages(), REPOSITORY / "infra/README.md", TEMPLATE]
FORM = PipelineSpec.read(REPOSITORY / "tests/golden/training.json").parameters


def lines(page: Path) -> Iterator[str]:
    """Yields the commands in the fenced blocks of a page, without comments and redirections."""
    for block in re.findall(r"(?ms)^ *```\w*.*?\n(.*?)^ *```$", page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.match(r" *(?:\$ )?(?:\w+=\S* )*(?:\.venv/bin/)?vgp ((?!--help)[a-z].*)", line)
            if command and "# exit" not in line:
                yield re.split(r"\s(?:#|>|\||&&)", command[1])[0].strip()


COMMANDS = sorted({line for page in PAGES for line in lines(page)})


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_pages_is_one_that_the_command_line_takes(line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)
    assert words[0] in command.commands
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    command.make_context(line, [word for word in words if word != "..."])


def settings(page: Path) -> Iterator[str]:
    """Yields each `--set` for the pipeline `training`: of commands, and of code within a sentence."""
    spans = [span for span in re.findall(r"`([^`\n]+)`", page.read_text()) if span.startswith("--set ")]
    for line in (*(line for line in lines(page) if line.split()[1:2] == ["training"]), *spans):
        words = shlex.split(line)
        yield from (value for option, value in zip(words, words[1:], strict=False) if option == "--set")


SETTINGS = sorted({text for page in PAGES for text in settings(page) if "..." not in text and "NAME" not in text})


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_of_the_pages_is_taken(text: str) -> None:
    values = parse_arguments(FORM, [text], members)
    form = {name: value for name, value in values.items() if name in TrainConfig.model_fields}
    parse_config({"strategy": "fsdp", **form, **values.get("training_options", {})})


def test_there_are_some() -> None:
    assert len(COMMANDS) > 40 and len(SETTINGS) > 5


def test_the_page_of_training_settings_names_those_with_a_field_of_their_own() -> None:
    head = (REPOSITORY / "docs/reference/training-settings.md").read_text().split("All others are members")[0]
    common = set(re.findall(r"`(\w+)`", head.split("Common settings")[1]))
    assert common == FORM.keys() & TrainConfig.model_fields.keys()
    assert members()["training_options"] == TrainConfig.model_fields.keys() - {"task", "options"}
