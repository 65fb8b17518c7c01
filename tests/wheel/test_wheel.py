"""The wheel, installed where nothing of this repository can be found: what the light base does, and what all does."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from linked import REPOSITORY, clean, link_locked, packages_of

Run = Callable[..., subprocess.CompletedProcess[str]]
SOURCES = ("vgp", "training", "components", "pipelines", "scripts", "docs/examples")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")
#: Whether the project's own test runs its pipeline too, as tests/vgp/workflow/local/test_run.py runs ours.
RUNS = bool(os.environ.get("TRAINING_TEST_PROJECT"))
GOLDEN = REPOSITORY / "tests" / "golden" / "training.json"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, in which an earlier build left something behind."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(REPOSITORY / name, copy)
    (copy / "build/lib/training").mkdir(parents=True)
    (copy / "build/lib/training/__init__.py").touch()
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(copy / "dist"), str(copy))
    (built,) = (copy / "dist").glob("*.whl")
    return built


def installing() -> dict[str, str]:
    """The environment of pip, which compiles nothing: each of four installations would take seconds."""
    return {**clean(), "PIP_NO_COMPILE": "1"}


def pip(*arguments: str, cwd: Path | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=installing(), cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def environment(folder: Path, wheel: Path) -> Path:
    """A new environment with the wheel and nothing else; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    return python


def command(python: Path) -> Run:
    """The command of that environment, in a folder."""

    def run(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        words = [str(python.with_name("vgp")), *arguments]
        done = subprocess.run(words, cwd=cwd, env=clean(), capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with what its base asks for."""
    python = environment(tmp_path_factory.mktemp("light") / "python", wheel)
    link_locked(packages_of(python))
    return python


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with all that is installed here, but for this repository itself."""
    python = environment(tmp_path_factory.mktemp("full") / "python", wheel)
    everything_in(python.parents[1])
    return python


def everything_in(folder: Path) -> None:
    """Makes an environment, if there is none, that finds all that is installed here; .pth files there do not count."""
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    installed = Path(str(distribution("kfp").locate_file("")))
    (packages_of(folder / "bin" / "python") / "all.pth").write_text(str(installed))


@pytest.fixture(scope="module")
def project(light: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `new project` writes, by the light base."""
    folder = tmp_path_factory.mktemp("projects")
    command(light)("new", "project", "churn", cwd=folder)
    return folder / "churn"


def test_the_wheel_holds_one_package_and_no_trace_of_an_earlier_build(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("vgp-0.1.0.dist-info/")}
    files = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "vgp").rglob("*") if path.is_file()}
    assert names - {name for name in names if name.startswith("vgp/originals/")} == {
        name for name in files if "__pycache__" not in name
    }


def test_the_base_is_light(light: Path) -> None:
    packages = ["kfp", "torch", "numpy", "google", "training", "components", "pipelines"]
    code = f"import importlib.util as u; print([name for name in {packages} if u.find_spec(name)])"
    done = subprocess.run([str(light), "-P", "-c", code], env=clean(), capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_the_light_base_checks_lists_and_converts(light: Path, tmp_path: Path) -> None:
    run = command(light)
    assert "7 machine requests, 0 errors" in run("check", str(GOLDEN), cwd=tmp_path).stdout
    wrong = {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "region": "us-central1"}}
    wrong["trainingInput"]["masterConfig"] = {"acceleratorConfig": {"count": 8, "type": "NVIDIA_H100"}}  # type: ignore[assignment]
    (tmp_path / "job.json").write_text(json.dumps(wrong))
    assert "H100" in run("check", "job.json", cwd=tmp_path, code=1).stdout
    (tmp_path / "before").mkdir()
    (tmp_path / "pipelines.toml").write_text('[schedules.nightly]\npipeline = "job"\ncron = "0 3 * * *"\n')
    printed = run("check", "job.json", "--compare", "before", "--format", "markdown", cwd=tmp_path, code=1).stdout
    assert "`job.json`, new" in printed and "30.4 |" in printed
    (tmp_path / "pipelines.toml").unlink()
    rows = json.loads(run("machines", "--accelerator", "L4", "--json", cwd=tmp_path).stdout)
    assert {row["accelerator_type"] for row in rows} == {"NVIDIA_L4"}
    line = (
        "gcloud ai custom-jobs create --region us-central1 --display-name x "
        "--worker-pool-spec machine-type=g2-standard-8,accelerator-type=NVIDIA_L4,container-image-uri=a/b:1"
    )
    (tmp_path / "line.sh").write_text(line)
    assert "g2-standard-8" in run("convert", "line.sh", cwd=tmp_path).stdout


@pytest.mark.parametrize("words", [["compile"], ["run", "training"], ["runs"]], ids=" ".join)
def test_a_verb_with_a_missing_extra_explains_how_to_install_it(light: Path, project: Path, words: list[str]) -> None:
    printed = command(light)(*words, cwd=project, code=2).stderr
    assert "is not installed. Install the extra vertex:" in printed
    assert f"{light} -m pip install 'vgp[vertex] @ file://" in printed


def test_a_repository_with_packages_of_our_names_keeps_its_own(full: Path, tmp_path: Path) -> None:
    """From a subfolder, with a workflow called training beside a package of that name."""
    files = {
        "pipelines.toml": 'region = "europe-west4"\n[steps.fit]\nmachine = "g2-standard-24"\n',
        "pipelines/__init__.py": "OWN = 1\n",
        "pipelines/training.py": WORKFLOW,
        "components/__init__.py": "from kfp import dsl\n\n\n@dsl.component(install_kfp_package=False)\n"
        "def fit(rows: int) -> int:\n    from training import doubled\n\n    return doubled(rows)\n",
        "training/__init__.py": "def doubled(rows: int) -> int:\n    return 2 * rows\n",
        "src/deep/x.py": "",
        "src/deep/vgp.py": "raise SystemExit('not this one')\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    run = command(full)
    (compiled,) = json.loads(
        run("compile", "--json", "--out", str(tmp_path / "out"), cwd=tmp_path / "pipelines").stdout
    )
    assert {step["machine_type"] for step in compiled["steps"]} == {"g2-standard-24"}
    result = json.loads(run("run", "training", "--set", "rows=21", "--json", cwd=tmp_path / "src/deep").stdout)
    assert result["steps"][0]["parameters"] == {"Output": 42}


WORKFLOW = """
from components import fit
from kfp import dsl
from pipelines import OWN
from training import doubled


def build(target):
    step = target.job(fit)

    @dsl.pipeline(name="mine")
    def mine(rows: int = doubled(OWN)):
        step(rows=rows)

    return mine
"""


def test_a_repository_without_a_workflow_and_a_folder_without_settings_are_reported(full: Path, tmp_path: Path) -> None:
    run = command(full)
    printed = run("compile", cwd=tmp_path, code=2).stderr
    assert "no pipelines.toml" in printed and "fault" not in printed
    (tmp_path / "pipelines.toml").write_text('region = "us-central1"\n')
    assert "holds no workflow" in run("list", cwd=tmp_path).stdout
    assert (
        "fault"
        not in subprocess.run(
            [str(full.with_name("vgp")), "compile"], cwd=tmp_path, env=clean(), capture_output=True, text=True
        ).stderr
    )


@pytest.fixture(scope="module")
def set_up(project: Path) -> Path:
    """The project's own environment, made by its own script; returns its Python."""
    folder = project / ".venv"
    everything_in(folder)
    words = {**installing(), "PIP_NO_INDEX": "1"}
    done = subprocess.run(["./setup.sh"], cwd=project, env=words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin" / "python"


def test_a_new_project_compiles_checks_and_passes_its_own_test(set_up: Path, project: Path) -> None:
    quick = ["-k", "compiles", "-k", "contract"]
    words = [str(set_up), "-m", "unittest", "discover", "tests", *([] if RUNS else quick)]
    done = subprocess.run(words, cwd=project, env=clean(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert f"Ran {3 if RUNS else 2} tests" in done.stderr
    assert "Nothing to do" in command(set_up)("update", cwd=project / "training/tasks").stdout


def test_the_image_of_a_new_project_has_its_code_wherever_a_step_starts(project: Path, tmp_path: Path) -> None:
    """The Dockerfile's own copies, the library's installation, and the line that leads Python to the project's code."""
    everything_in(tmp_path / "python")
    text = (project / "training/Dockerfile").read_text().replace("\\\n", " ")
    app = tmp_path / "app"
    app.mkdir()
    words = {**clean(), "PATH": f"{tmp_path}/python/bin:{Path(sys.executable).parent}:/usr/bin:/bin"}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "COPY":
            *sources, destination = rest.split()
            (app / destination).mkdir(exist_ok=True)
            for found in (found for source in sources for found in sorted(project.glob(source))):
                if found.is_dir():
                    shutil.copytree(found, app / destination, dirs_exist_ok=True)
                else:
                    shutil.copy(found, app / destination)
        elif name == "RUN" and "vgp.txt" in rest:  # what else it installs, setup.sh installs above from the same lock
            pip("--python", f"{tmp_path}/python/bin/python", "install", "--no-index", "--require-hashes", "--no-deps",
                "-r", "vgp.txt", cwd=app / "vgp")  # fmt: skip
            shutil.rmtree(app / "vgp")
        elif name == "RUN" and ".pth" in rest:
            done = subprocess.run(["sh", "-c", rest], cwd=app, env=words, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    code = "import training.tasks.digits as task, vgp.steps.calls as calls; print(task.__file__, calls.__file__)"
    done = subprocess.run(["python3", "-c", code], cwd=tmp_path, env=words, capture_output=True, text=True)
    task, calls = done.stdout.split() or [done.stderr, ""]
    assert task == f"{app}/training/tasks/digits.py"
    assert calls.startswith(f"{tmp_path}/python/lib/")
