"""constraints.txt has every pin with its hashes, and lock.py prints exactly the pins that each extra needs."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "constraints.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
PINS = {
    re.sub(r"[-_.]+", "-", name).lower(): (version, hashes)
    for name, version, hashes in re.findall(
        r"(?m)^([\w.-]+)==([\w.]+)(?: ;[^\\]*)? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", TEXT
    )
}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(*words: str, isolated: bool = False) -> str:
    """What vgp/base/lock.py prints; `isolated`: as if nothing was installed."""
    command = [sys.executable, *(["-I", "-S"] if isolated else []), "vgp/base/lock.py", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def names(text: str) -> set[str]:
    return set(re.findall(r"(?m)^([\w.-]+)==", text))


def asked(*extras: str) -> list[Requirement]:
    own = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    return [Requirement(each) for each in [*own, *needed_by(extras)]]


def needed_by(extras: Iterable[str]) -> Iterator[str]:
    for requirement in (requirement for extra in extras for requirement in EXTRAS[extra]):
        inner = Requirement(requirement)
        yield from needed_by(inner.extras) if inner.name == "vgp" else (requirement,)


def test_every_pin_has_the_hashes_of_its_files() -> None:
    requirements = [line for line in TEXT.splitlines() if line and not line.startswith((" ", "#"))]
    assert {canonical(line.partition("==")[0]) for line in requirements} == PINS.keys() and len(PINS) > 150
    assert TEXT.count("--hash=sha256:") > 10 * len(PINS), "of other platforms and Pythons, too"


def test_no_package_index_is_named() -> None:
    for path in ("constraints.txt", "scripts/lock.sh", "vgp/base/lock.py", "scripts/setup.sh", "training/Dockerfile"):
        assert not re.search(r"index-url https?:|https?://|find-links", (ROOT / path).read_text()), path


def test_what_pyproject_asks_for_is_locked_in_a_version_that_it_takes() -> None:
    for requirement in asked(*EXTRAS):
        version = PINS[canonical(requirement.name)][0]
        assert requirement.specifier.contains(version), requirement


def test_a_pin_for_each_python_is_printed_whole() -> None:
    """pip passes over the one of another Python, and without its own would find none."""
    printed = re.findall(r"(?m)^google-apitools==.*python_full_version ([<>]=?)", locked("training", "beam"))
    assert printed == ["<", ">="]


def test_the_build_backend_is_pinned_and_always_there() -> None:
    for requirement in PROJECT["build-system"]["requires"]:
        assert re.fullmatch(r"[\w-]+==[\d.]+", requirement)
    backends = {Requirement(each).name for each in PROJECT["build-system"]["requires"]}
    assert names(locked("--build")) == backends <= names(locked())


@pytest.mark.parametrize(
    "extras",
    [(), ("clients",), ("vertex",), ("training",), ("beam",), ("huggingface",), ("dev",)],
    ids=str,
)
def test_a_set_of_extras_is_complete_and_no_more_than_that(extras: tuple[str, ...]) -> None:
    """Follows the installed distributions and their markers: pip's hash mode takes only listed packages."""
    printed, needed = names(locked(*extras)), set()
    waiting = [(canonical(each.name), frozenset(each.extras)) for each in asked(*extras)]
    while waiting:
        name, wanted = visit = waiting.pop()
        if visit in needed:
            continue
        needed.add(visit)
        for requirement in map(Requirement, metadata.distribution(name).requires or ()):
            environments = [{"extra": extra} for extra in wanted or {""}]
            if not requirement.marker or any(map(requirement.marker.evaluate, environments)):
                waiting.append((canonical(requirement.name), frozenset(requirement.extras)))
    assert {name for name, _ in needed} <= printed
    here = {canonical(each.name) for each in metadata.distributions()}
    assert printed - here <= {"colorama", "tzdata", "httpx2-jsfetch", "pywin32-ctypes"}, "for other platforms"
    assert ("torch" in printed) is ("training" in extras)


def test_which_libraries_torch_brings_along_is_known_by_its_build() -> None:
    """The index's build for Linux needs CUDA's libraries; the installed one for CPUs does not."""
    cuda = {
        name for name in names(locked("training", isolated=True)) if name.startswith(("nvidia-", "cuda-", "triton"))
    }
    assert len(cuda) > 10
    if metadata.version("torch").endswith("+cpu"):
        assert not cuda & names(locked("training"))
    version, hashes = PINS["torch"]
    builds_of_index, cpu_on_linux = 24, 8
    assert version == "2.13.0" and hashes.count("sha256:") == builds_of_index + cpu_on_linux


def test_an_extra_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "vgp/base/lock.py", "trainin"], cwd=ROOT, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 1 and "no extra 'trainin'. Choices: clients, vertex, training" in done.stderr


def installs() -> list[str]:
    """Returns every call of pip that installs, in scripts, image, action, CI and a new project, each on one line."""
    workflows = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")]
    texts = [step.get("run", "") for each in workflows for job in each["jobs"].values() for step in job["steps"]]
    texts += [step["script"] for step in yaml.safe_load((ROOT / "cloudbuild.yaml").read_text())["steps"]]
    texts += [
        (ROOT / name).read_text()
        for name in (
            "scripts/setup.sh",
            "training/Dockerfile",
            "test.sh",
            "compile.sh",
            "scripts/action/install.sh",
            "vgp/workflow/project/template/setup.sh",
        )
    ]
    lines = re.sub(r"\\\n", " ", "\n".join(texts)).replace("&&", "\n").replace("||", "\n").splitlines()
    calls = [line.strip() for line in lines if re.search(r"\bpip(?:_| .*)install |try_install |^\s*pip --", line)]
    # The owner of a project pins the packages of its tasks; CI also tries versions of torch that are not locked.
    theirs = re.compile(r'pip.install -r requirements\.txt|"torch==\$TORCH"|"\$@"|^#')
    return [line for line in calls if not theirs.search(line)]


def test_nothing_is_installed_without_a_hash_in_scripts_image_and_ci() -> None:
    calls = installs()
    assert len(calls) >= 18
    for line in calls:
        ours = "--no-build-isolation" in line and re.search(r" (?:-e )?\.$", line)
        assert "--no-deps" in line, line
        assert ours or "--require-hashes" in line, line


def test_no_build_backend_is_fetched_for_the_occasion() -> None:
    """Where a set may hold what has no wheel, it is built with what is installed."""
    for line in installs():
        only_wheels = re.search(r"(?:build|pip|cpu|vgp)\.txt", line)
        assert only_wheels or "--no-build-isolation" in line, line
