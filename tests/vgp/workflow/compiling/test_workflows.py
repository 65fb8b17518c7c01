"""Any repository: workflows are found by their files, import its own packages, and errors name file and line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vgp.__main__ import main
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import list_cached_tasks
from vgp.machines.placement.step_request import Request
from vgp.settings import Repository, Settings, find_repository, load
from vgp.workflow.compiling import compile, workflow_files
from vgp.workflow.compiling.compile_target import Local
from vgp.workflow.compiling.vertex import Vertex

REPOSITORY = Path(__file__).parents[4]
#: A workflow with a component and a helper that are all called as ours are.
FLOW = """
import queue
from kfp import dsl
from components.hello import hello
from pipelines.shared import GREETING
from training.words import WORLD

def build(target):
    greet = target.step(hello)

    @dsl.pipeline(name="greet", description="Greets.")
    def greeting(text: str = GREETING + WORLD, times: int = 1024):
        greet(text=text)

    return greeting

def check(parameters, *, remote=False):
    if not parameters["text"]:
        raise ValueError("text is empty: give some text.")
"""
HELLO = """
from kfp import dsl

@dsl.component(base_image="example.com/own:1", install_kfp_package=False)
def hello(text: str) -> str:
    from training.words import WORLD

    return text + WORLD
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Repository]:
    """A repository of these files."""

    def write_(files: dict[str, str], settings: str = "") -> Repository:
        for name, text in {"pipelines.toml": settings, **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return find_repository(tmp_path / "pipelines.toml")

    return write_


@pytest.fixture
def hostile(write: Callable[..., Repository]) -> Repository:
    """A repository whose packages are called as ours, and as some of Python's."""
    files = {
        "flows/training.py": FLOW, "flows/_draft.py": "def build(target): ...", "flows/helper.py": "x = 1",
        "components/__init__.py": "", "components/hello.py": HELLO,
        "pipelines/__init__.py": "", "pipelines/shared.py": "GREETING = 'hello '",
        "training/__init__.py": "", "training/words.py": "WORLD = 'world'",
        "queue/__init__.py": "raise SystemExit('not Python s queue')",
        "tarfile.py": "raise SystemExit('not Python s tarfile')",
    }  # fmt: skip
    return write(files, 'workflows = "flows"\nimage = "example.com/own:1"\n')


def command(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as the console script starts it: without the current folder."""
    line = [sys.executable, "-P", "-W", "ignore", "-m", "vgp", *words]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(line, cwd=at, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("folder", ["flows", "queue"])
def test_a_repository_with_packages_called_as_ours_is_served_from_every_folder(
    hostile: Repository, folder: str
) -> None:
    done = command("compile", "--out", str(hostile.root / "build"), at=hostile.root / folder)
    assert done.returncode == 0, done.stderr
    spec = json.loads((hostile.root / "build" / "training.json").read_text())
    assert spec["root"]["inputDefinitions"]["parameters"]["text"]["defaultValue"] == "hello world"


def test_its_steps_import_its_own_packages_too(hostile: Repository) -> None:
    words = ["run", "training", "--json", "--set", "text=hi ", "--out", str(hostile.root / "runs")]
    done = command(*words, at=hostile.root / "training")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"][0]["parameters"] == {"Output": "hi world"}


def test_the_workflow_itself_refuses_a_parameter(write: Callable[..., Repository]) -> None:
    check = FLOW.partition("def check")[2]
    text = PLAIN.replace("text: str,", 'text: str = "",') + f"def check{check}"
    repository = write({"pipelines/mine.py": text})
    spec = workflow_files.compile_workflow("mine", Local(), repository)
    workflow_files.check_arguments("mine", spec, {"text": "a"}, repository)
    with pytest.raises(RequestError, match="^text is empty: give some text.$"):
        workflow_files.check_arguments("mine", spec, {"text": ""}, repository)


def test_a_parameter_of_the_settings_does_not_reach_the_workflows_own_check() -> None:
    """Else every run of a pipeline with sizes would be refused: its `check` knows the parameters that it declares."""
    sizes = {"small": {"machine": "g2-standard-4"}, "large": {"machine": "g2-standard-4", "nodes": 3}}
    asked = {"train": Request.model_validate({"sizes": sizes, "timeout": "2h"})}
    repository = find_repository(REPOSITORY / "pipelines.toml")
    spec = workflow_files.compile_workflow(
        "training", Vertex(Settings(image="example.com/own:1", steps=asked)), repository
    )
    workflow_files.check_arguments("training", spec, {"train_size": "large"}, repository)
    with pytest.raises(RequestError, match="train_size = 'huge': there is no such size"):
        workflow_files.check_arguments("training", spec, {"train_size": "huge"}, repository)
    exact = {"training_options": {"exact": True}}
    workflow_files.check_arguments("training", spec, {"train_size": "small", **exact}, repository)
    with pytest.raises(
        RequestError, match="not 4 microbatches on 3 processes, one for each GPU of the step's machines"
    ):
        workflow_files.check_arguments("training", spec, {"train_size": "large", **exact}, repository)


def test_the_machines_of_a_step_without_a_ladder_are_passed_too() -> None:
    asked = {"train": Request.model_validate({"machine": "g2-standard-4", "nodes": 3})}
    repository = find_repository(REPOSITORY / "pipelines.toml")
    spec = workflow_files.compile_workflow(
        "training", Vertex(Settings(image="example.com/own:1", steps=asked)), repository
    )
    workflow_files.check_arguments("training", spec, {}, repository)
    with pytest.raises(RequestError, match="on 3 processes, one for each GPU"):
        workflow_files.check_arguments("training", spec, {"training_options": {"exact": True}}, repository)


def test_a_check_gets_the_values_it_names() -> None:
    def asking(parameters: object, *, commands: object) -> None: ...
    def older(parameters: object, *, remote: bool = False) -> None: ...

    assert workflow_files._select_keywords(asking, remote=True, commands=("train",)) == {"commands": ("train",)}
    assert workflow_files._select_keywords(older, remote=True, commands=()) == {"remote": True}


def test_the_module_is_python_and_not_the_command_where_a_folder_is_on_the_path(hostile: Repository) -> None:
    """`python -m vgp` puts the current folder first, where `training` would be the workflow."""
    line = [sys.executable, "-W", "ignore", "-m", "vgp", "list", "--json"]
    done = subprocess.run(line, cwd=hostile.folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, text=True,
                          capture_output=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)] == ["training"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("def build(target): ...", True),
        ("build = make('a')", True),
        ("build: Build = make('a')", True),
        ("x = 1", False),
        ("'''\ndef build(target):\n'''", False),
        ("class A:\n    def build(self): ...", False),
        ("\ufeffdef build(target): ...", True),
        ("def build(target):\n  return (", True),
        ("x = (", False),
        ("(" * 100_000 + "\ndef build(target): ...", True),
        ("def build(target): ...\n" + "#" * 2_000_000, False),
        ("@dsl.pipeline(name='a')\ndef a(): ...", True),
        ("@placed\n@kfp.dsl.pipeline\ndef a(): ...", True),
        ("@pipeline\ndef a(): ...\n(", True),
        ("@dsl.component\ndef a(): ...", False),
    ],
)
def test_a_file_with_a_pipeline_or_build_is_a_workflow_and_none_is_imported_to_know(
    write: Callable[..., Repository], text: str, is_one: bool
) -> None:
    found = workflow_files.find_workflows(write({"pipelines/it.py": f"{text}\n"}))
    assert list(found) == (["it"] if is_one else [])


def test_a_folder_a_pipe_and_a_hidden_file_are_no_workflows(write: Callable[..., Repository]) -> None:
    repository = write({"pipelines/.hidden.py": FLOW, "pipelines/folder.py/x": "", "pipelines/_own.py": FLOW})
    os.mkfifo(repository.folder / "pipe.py")
    assert workflow_files.find_workflows(repository) == {}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, stdout and stderr."""

    def run(*words: str, at: Path) -> tuple[int, str, str]:
        monkeypatch.chdir(at)
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_a_repository_without_a_workflow_is_reported(
    write: Callable[..., Repository], here: Callable[..., tuple[int, str, str]]
) -> None:
    root = write({}).root
    assert here("list", "--json", at=root)[:2] == (0, "[]\n") and here("list", at=root)[0] == 0
    for words in (["compile"], ["compile", "mine"], ["run", "mine"]):
        code, _, err = here(*words, at=root)
        assert code == 2 and "pipelines/ holds no workflow" in err and "vgp new project" in err


def test_without_settings_nothing_is_compiled(tmp_path: Path, here: Callable[..., tuple[int, str, str]]) -> None:
    for words in (["compile"], ["list"], ["run", "training"], ["submit", "training"]):
        code, _, err = here(*words, at=tmp_path)
        assert code == 2, words
        assert err.startswith("error: there is no pipelines.toml") and "vgp new project" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere\n\ndef build(target): ...", "pipelines/mine.py:1: ModuleNotFoundError: No module named 'nowh"),
        ("from lib import it\n\ndef build(target): ...", "lib.py:2: ZeroDivisionError: "),
        ("def build(target):\n    return target.stepp", "pipelines/mine.py:2: AttributeError: "),
        ("def build(target):\n  return (", "pipelines/mine.py:2: SyntaxError: '(' was never closed"),
        ("raise SystemExit(3)\ndef build(target): ...", "pipelines/mine.py:1: SystemExit: 3"),
        ("def build(): ...", "pipelines/mine.py: TypeError: build() takes 0 positional arguments"),
        ("def build(target): ...", "pipelines/mine.py: build(target) must return its function with @dsl.pipeline."),
        ("build = 3", "pipelines/mine.py holds no workflow: add a @dsl.pipeline function"),
    ],
)
def test_code_that_fails_is_reported_by_file_and_line(
    write: Callable[..., Repository], text: str, message: str
) -> None:
    repository = write({"pipelines/mine.py": text, "lib.py": "\nit = 1 / 0\n"})
    with pytest.raises(RequestError) as refused:
        workflow_files.compile_workflow("mine", Local(), repository)
    assert str(refused.value).startswith(message)


PLAIN = """
from kfp import dsl
from vgp.workflow import placed, step, target

@dsl.component(base_image="example.com/own:1", install_kfp_package=False)
def hello(text: str): ...

greet = step(hello, pinned=True)

@placed
@dsl.pipeline(name="greet")
def greeting(text: str, again: str = "b", also: str = "a"):
    greet(text=text)
    greet(text=target().run)
"""


def test_a_plain_kfp_file_is_placed_by_the_target_of_each_compilation(write: Callable[..., Repository]) -> None:
    repository = write({"pipelines/mine.py": PLAIN}, 'bucket = "gs://a-bucket"\n')
    here = workflow_files.compile_workflow("mine", Local(), repository)
    there = workflow_files.compile_workflow("mine", Vertex(load(repository.file)), repository)
    assert here.content["root"].keys() == there.content["root"].keys()
    assert "defaultPipelineRoot" not in here.content
    assert there.content["defaultPipelineRoot"] == "gs://a-bucket/runs"
    assert "resource_name" in there.text and "resource_name" not in here.text
    assert list(there.parameters) == ["text", "again", "also"], "in the order of the signature"
    assert workflow_files.compile_workflow("mine", Local(), repository) == here


def test_a_pipeline_that_is_not_placed_is_completed_all_the_same(write: Callable[..., Repository]) -> None:
    """Such a file is written for KFP alone."""
    text = PLAIN.replace("@placed\n", "").replace("step(hello, pinned=True)", "hello").replace("target().run", "text")
    repository = write({"pipelines/mine.py": text}, 'bucket = "gs://a-bucket"\n')
    spec = workflow_files.compile_workflow("mine", Vertex(load(repository.file)), repository)
    assert spec.content["defaultPipelineRoot"] == "gs://a-bucket/runs" and list_cached_tasks(spec) == []


@pytest.mark.parametrize("name", ["training", "batch_prediction"])
def test_kfps_own_command_writes_the_same_spec(name: str, tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        "from kfp.cli.__main__ import main; main()",
        "dsl",
        "compile",
        "--py",
        f"pipelines/{name}.py",
    ]
    done = subprocess.run(
        [*line, "--output", str(tmp_path / "it.json")], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0 and (tmp_path / "it.json").exists(), done
    settings = load(REPOSITORY / "pipelines.toml")
    ours = workflow_files.compile_workflow(name, Vertex(settings), settings.repository)
    assert json.loads((tmp_path / "it.json").read_text()) == ours.content


def test_an_unknown_workflow_is_refused_with_the_near_one(write: Callable[..., Repository]) -> None:
    with pytest.raises(RequestError, match="no pipeline 'trainning'. Did you mean training?"):
        workflow_files.compile_workflow("trainning", Local(), write({"pipelines/training.py": FLOW}))


@pytest.mark.parametrize("folder", ["/etc", "../other", "", "a\\u0000b"])
def test_workflows_lie_in_the_repository(write: Callable[..., Repository], folder: str) -> None:
    with pytest.raises(RequestError, match=r"pipelines.toml:1: workflows: .* is not a folder of this repository"):
        write({}, f'workflows = "{folder}"\n')


def test_a_settings_file_above_with_another_owner_is_not_taken(
    write: Callable[..., Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"deep/er/x": ""}).root
    monkeypatch.chdir(root / "deep" / "er")
    assert find_repository().root == root
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if os.stat(root).st_uid:
        with pytest.raises(RequestError, match="belongs to another user"):
            find_repository()


@pytest.mark.parametrize("name", ["training", "batch_prediction"])
def test_a_run_of_the_console_has_the_registry_of_the_settings_wherever_it_writes(name: str) -> None:
    repository = find_repository(REPOSITORY / "pipelines.toml")
    own = Settings(image="example.com/own:1", bucket="gs://bucket/team", registry="gs://bucket/registry-dev")
    spec = workflow_files.compile_workflow(name, Vertex(own), repository)
    compile.verify(spec)
    assert spec.content["defaultPipelineRoot"] == "gs://bucket/team/runs"
    assert spec.defaults["registry"] == "gs://bucket/registry-dev"
    usual = workflow_files.compile_workflow(name, Vertex(own.model_copy(update={"registry": None})), repository)
    assert usual.defaults["registry"] == "gs://bucket/team/registry"
    for target in (Vertex(Settings(image="example.com/own:1")), Local(own)):
        open_ = workflow_files.compile_workflow(name, target, repository)
        assert open_.defaults["registry"] == "" and "defaultPipelineRoot" not in open_.content


@pytest.mark.parametrize("parameters", ["registry: str = ''", "registry: str = 'gs://mine', model_name: str = ''"])
def test_a_parameter_of_another_meaning_keeps_its_default(write: Callable[..., Repository], parameters: str) -> None:
    """A registry of container images, and a registry of models that the workflow itself names."""
    flow = FLOW.replace("text: str = GREETING + WORLD", f'text: str = "", {parameters}')
    lines = [line for line in flow.splitlines() if not line.startswith(("import queue", "from "))]
    imports = "from kfp import dsl\n" + HELLO.replace("from kfp import dsl", "")
    repository = write({"flows/training.py": imports + "\n".join(lines)}, 'workflows = "flows"\n')
    spec = workflow_files.compile_workflow("training", Vertex(Settings(bucket="gs://bucket")), repository)
    assert spec.defaults["registry"] in ("", "gs://mine") and spec.content["defaultPipelineRoot"] == "gs://bucket/runs"
