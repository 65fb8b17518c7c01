"""What the command line lists: from a table, so that --help imports no verb; whole, cheap, completed by shells."""

import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from vgp.__main__ import app
from vgp.cli.verbs import VERBS, load_commands

CLI = Path(__file__).parents[3] / "vgp" / "cli"
FILES = sorted(
    path.stem
    for path in CLI.glob("[a-z]*.py")
    if hasattr(import_module(f"vgp.cli.{path.stem}"), "app") and path.stem != "verbs"
)


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "vgp", *words]
    environment = {**os.environ, "PYTHONPATH": str(CLI.parents[1]), **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def cpu_s(*arguments: str) -> float:
    """User and system time of a Python process; the least of three."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return min(once() for _ in range(3))


@pytest.mark.parametrize("file", FILES)
def test_every_verb_of_a_file_is_listed_and_documented_with_an_example(file: str) -> None:
    listed = {name for verbs in VERBS.values() for name, verb in verbs.items() if verb.file == file}
    assert listed == set(load_commands(file))
    for name, command in load_commands(file).items():
        for part in (command, *getattr(command, "commands", {}).values()):
            assert part.help and part.epilog.startswith("Example: vgp "), f"{name} {part.name}"


def test_a_terminal_of_80_columns_shows_every_summary_whole() -> None:
    lines = run("--help", COLUMNS="80").stdout.splitlines()
    for heading, verbs in VERBS.items():
        assert f"{heading}:" in lines
        for name, verb in verbs.items():
            assert any(line.split(maxsplit=1) == [name, verb.summary] for line in lines), name


def test_a_verb_is_found_by_its_name_and_a_misspelt_one_by_its_neighbour() -> None:
    command: Any = typer.main.get_command(app)
    assert command.commands["machines"].callback.__module__ == "vgp.cli.machines"
    assert "machines" in run("machine").stderr
    assert run("machine").returncode == 2


def test_help_costs_a_fraction_of_importing_kfp() -> None:
    help_s, kfp_s = cpu_s("-m", "vgp", "--help"), cpu_s("-W", "ignore", "-c", "import kfp")
    assert help_s < 0.3 * kfp_s, f"{help_s:.3f} s of {kfp_s:.3f} s; alone on a machine it is 0.15"


def test_the_file_of_a_verb_executes_none_of_the_modules_that_do_its_work() -> None:
    code = (
        "import sys\n"
        "from vgp.cli import image, models, project, runs, schedules, submit, workflows\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in ('pydantic', 'requests', 'rich')))\n"
        "print('vgp.settings' in sys.modules, type(submit.run_submission).__name__)\n"
        "print(callable(submit.run_submission.submit), type(submit.run_submission).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False _LazyModule", "True module"]


def test_help_of_a_verb_draws_nothing_with_rich() -> None:
    text = run("machines", "--help").stdout
    assert "--max-usd-per-hour" in text
    assert "╭" not in text


def test_help_of_a_group_cuts_nothing_off() -> None:
    text = run("schedule", "--help", COLUMNS="80").stdout
    assert "..." not in text.partition("Commands:")[2]
    assert "Create and update the schedules as declared." in text
    assert "Write [schedules.NAME] into pipelines.toml" in text


def test_a_shell_completes_verbs_and_options() -> None:
    script = run(_VGP_COMPLETE="source_bash").stdout
    assert "complete -o default -F" in script
    verbs = run(_VGP_COMPLETE="complete_bash", COMP_WORDS="vgp sche", COMP_CWORD="1").stdout
    assert verbs.split() == ["schedule"]
    below = run(_VGP_COMPLETE="complete_bash", COMP_WORDS="vgp schedule pl", COMP_CWORD="2").stdout
    assert below.split() == ["plan"]
    options = run(_VGP_COMPLETE="complete_bash", COMP_WORDS="vgp machines --max-usd-", COMP_CWORD="2").stdout
    assert options.split() == ["--max-usd-per-hour"]
