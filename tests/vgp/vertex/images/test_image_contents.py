"""A run whose code the image does not hold is refused, with the line that is missing."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vgp.base.errors import RequestError
from vgp.check.spec.container_settings import START
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import load
from vgp.vertex.images.image_contents import refuse_missing

IMAGE = "us-docker.pkg.dev/me/images/mine:1"
LIGHT = f"us-docker.pkg.dev/me/images/mine@sha256:{'1' * 64}"
FILES = {
    ".gitignore": "tasks/secret.py\n",
    "Dockerfile": "FROM scratch\nCOPY tasks ./tasks\nCOPY train.py lib/ ./\n",
    "pipelines.toml": f'image = "{IMAGE}"\nlight_image = "{LIGHT}"\n',
    "tasks/__init__.py": "",
    "tasks/mine.py": "import tasks.helper\nfrom . import helper\nfrom tasks.helper import number\n",
    "tasks/helper.py": "import os, numpy\n",
    "tasks/far.py": "from scripts import tools\n",
    "tasks/secret.py": "",
    "notebooks/draft.py": "",
    "scripts/tools.py": "",
    "scripts/run.sh": "",
    "train.py": "import json\nimport layers\n",
    "layers.py": "",
}


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Returns the error of a run with these values, and with this command in place of a step's Python; "": none."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    settings = load(tmp_path / "pipelines.toml")
    monkeypatch.chdir(tmp_path)

    def refuse(*command: str, image: str = settings.image, **values: object) -> str:
        container = {"image": image, "command": [*START, "text"], "args": ["--launch", "plain", "--", *command]}
        content = {
            "components": {"comp-train": {"executorLabel": "exec-train"}},
            "deploymentSpec": {"executors": {"exec-train": {"container": container}}},
        }
        try:
            refuse_missing(settings, PipelineSpec(content if command else {}), values)
        except RequestError as error:
            return str(error)
        return ""

    return refuse


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            "notebooks.draft:Draft",
            "the image does not hold notebooks/draft.py. Add the line 'COPY notebooks ./notebooks'",
        ),
        ("tasks.far:Far", "does not hold scripts/tools.py, which tasks/far.py imports. Add the line 'COPY scripts"),
        ("tasks.secret:Secret", "does not hold tasks/secret.py. git ignores it"),
        ("layers:Layers", "does not hold layers.py. Add the line 'COPY layers.py ./' to Dockerfile"),
    ],
)
def test_a_module_of_this_machine_that_the_image_does_not_hold_is_refused(
    refusal: Callable[..., str], task: str, message: str
) -> None:
    assert f"task = {task}: the image" in refusal(task=task) and message in refusal(task=task)
    assert message in refusal(options={"teacher": [task]}), "wherever it stands"


@pytest.mark.parametrize(
    "task", ["tasks.mine:Mine", "flights", "numpy:ndarray", "json:dumps", "of.the.image:Task", "a: b"]
)
def test_modules_that_are_copied_installed_or_not_here_are_not_reported(refusal: Callable[..., str], task: str) -> None:
    assert refusal(task=task) == ""


def test_a_module_outside_of_the_repository_is_refused(
    refusal: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "loose.py").write_text("")
    monkeypatch.syspath_prepend(str(elsewhere))
    assert "loose.py. It lies outside of" in refusal(task="loose:Loose")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("python", "train.py"), "python train.py: the image does not hold layers.py, which train.py imports."),
        (("sh", "scripts/run.sh"), "does not hold scripts/run.sh. Add the line 'COPY scripts ./scripts'"),
        (("python", "-m", "notebooks.draft"), "does not hold notebooks/draft.py."),
    ],
)
def test_a_file_of_a_command_in_our_image_must_be_in_it(
    refusal: Callable[..., str], command: tuple[str, ...], message: str
) -> None:
    assert message in refusal(*command)
    assert refusal(*command, image=LIGHT) == refusal(*command)
    assert refusal(*command, image="us-docker.pkg.dev/me/images/other:2") == "", "another image has files of its own"


def test_what_dockerignore_leaves_out_is_not_in_the_image(refusal: Callable[..., str]) -> None:
    Path(".dockerignore").write_text("tasks/m*.py\n")
    assert ".dockerignore leaves it out: add the line '!tasks/mine.py'" in refusal(task="tasks.mine:Mine")
    Path(".dockerignore").write_text("*\n!tasks\n")
    message = refusal(task="notebooks.draft:Draft")
    assert "'COPY notebooks ./notebooks' to Dockerfile and '!notebooks' to .dockerignore, or move the file" in message


def test_without_a_dockerfile_nothing_is_known_of_the_image(refusal: Callable[..., str]) -> None:
    Path("Dockerfile").unlink()
    assert refusal(task="notebooks.draft:Draft") == ""
