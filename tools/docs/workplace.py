"""The scratch folder in which the commands of one page run, with a Google Cloud on loopback if the page needs one."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import glob
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from .page import File

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
#: The files of a clone that a page may change; its vgp/ is the library that runs.
CLONE = ("pipelines.toml", "pipelines", "components", "training", "docs/examples", "README.md")
#: Seconds of the loopback cloud's time in a second.
SPEED = 600.0
LIMIT_S = 900
_CONTAINER = REPOSITORY / "tools/emulator/container"
#: Processes for `vgp` are forked from one that has imported the library: a second less for each.
_FORK = get_context("forkserver")
_FORK.set_forkserver_preload(["vgp.__main__", "vgp.cli.workflows", "vgp.cli.check", "vgp.cli.machines", "vgp.settings"])


class Workplace:
    """A scratch folder, its environment, and the folder that the page's commands are in."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.top = self.folder = folder
        self.environment = environment

    def write(self, file: File) -> None:
        """Writes a titled block of the page."""
        path = self.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.content)

    def run(self, command: str) -> tuple[list[str], int]:
        """Runs the command; returns the lines that it printed, and its exit status.

        Understands `VARIABLE=value command`, `export VARIABLE=value`, `cd FOLDER`, `command > FILE` and `cp PATTERN`,
        and no shell.
        """
        words = shlex.split(command, comments=True)
        if words[0] == "cd":
            self.folder = self.folder / words[1]
            return ([], 0) if self.folder.is_dir() else ([f"no folder {words[1]}"], 1)
        if words[0] == "export":
            self.environment.update(word.partition("=")[::2] for word in words[1:])
            return [], 0
        environment = dict(self.environment)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words[0] == "cp":
            words = [path for word in words for path in sorted(glob(word, root_dir=self.folder)) or [word]]
        target = self.folder / words[-1] if words[-2:-1] == [">"] else None
        if target:
            target.write_bytes(b"")
        printed = self.top.with_suffix(".out")
        printed.write_bytes(b"")
        status = self._start(words[:-2] if target else words, environment, target or printed, printed)
        text = printed.read_text(errors="replace").replace(f"{self.top}/", ".../").rstrip()
        return [line.rstrip() for line in text.splitlines()], status

    def _start(self, words: list[str], environment: dict[str, str], output: Path, errors: Path) -> int:
        if Path(words[0]).name == "vgp":
            process = _FORK.Process(target=_call_vgp, args=(words[1:], self.folder, environment, output, errors))
            process.start()
            process.join(LIMIT_S)
            if process.exitcode is None:
                process.kill()
            return -1 if process.exitcode is None else process.exitcode
        with output.open("a") as file, errors.open("a") as error_file:
            try:
                return subprocess.run(
                    words, cwd=self.folder, env=environment, stdout=file, stderr=error_file,
                    stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                ).returncode  # fmt: skip
            except FileNotFoundError as error:
                error_file.write(f"{error}\n")
                return 127


def _call_vgp(words: list[str], folder: Path, environment: dict[str, str], output: Path, errors: Path) -> None:
    """Runs `vgp` in this process, which was forked for it."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.path[:] = ["vgp", *words], [place for place in sys.path if place]
    for number, file in ((1, output), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    if clock := environment.get("LOOPBACK_CLOCK"):
        _hurry(*map(float, clock.split()))
    from vgp.__main__ import main

    main(words)


def _hurry(epoch: float, began: float, speed: float) -> None:
    """Lets the library's clock run as the loopback cloud's."""
    import time

    from vgp.base.clock import Clock

    sleep, monotonic = time.sleep, time.monotonic
    Clock.now = lambda self: epoch + (monotonic() - began) * speed  # type: ignore[method-assign]
    Clock.sleep = lambda self, seconds: sleep(seconds / speed)  # type: ignore[method-assign]


@contextmanager
def open_workplace(options: dict[str, str], cache: Path) -> Iterator[Workplace]:
    """Makes the workplace that the page's options describe; `cache` holds what pages share, such as compiled specs."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="docs-"))) / "work"
        folder.mkdir()
        environment = {
            "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
            "HOME": str(cache),
            "LANG": "C.UTF-8",
            "PIPELINES_CACHE_DIR": str(cache / "vgp"),
            "OMP_NUM_THREADS": "1",
        }
        place = Workplace(folder, environment)
        kind = options.get("folder", "clone")
        if kind == "clone":
            for name in CLONE:
                _copy(REPOSITORY / name, folder / name)
            (folder / "vgp").symlink_to(REPOSITORY / "vgp")
            (folder / ".venv").symlink_to(PROGRAMS.parent)
        elif kind == "project":
            _copy(_make_project(cache, environment), folder)
        elif kind != "empty":
            raise ValueError(f"folder={kind}: clone, project or empty")
        if "cloud" in options:
            _connect(stack, place, bare=options["cloud"] == "bare", tables="tables" in options)
        yield place


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _make_project(cache: Path, environment: dict[str, str]) -> Path:
    """Returns the folder of a project `demo`, written once for all pages."""
    if not (cache / "demo").is_dir():
        Workplace(cache, environment).run("vgp new project demo")
    return cache / "demo"


def _connect(stack: ExitStack, place: Workplace, *, bare: bool, tables: bool) -> None:
    """Starts the Google Cloud on loopback: the project `my-project` as infra/ makes one.

    `bare` leaves the settings to the page's `vgp init`; else variables hold them, an image is built, and there is quota
    for 8 L4. `tables` adds the table my-project.flights.rows, and time passes as it does here.
    """
    from tools.emulator.cloud import Cloud
    from tools.emulator.example import add_flights, furnish

    cloud = stack.enter_context(Cloud(project="my-project"))
    furnish(cloud)
    if tables:
        add_flights(cloud)
    settings = {
        "PIPELINES_BUCKET": "gs://my-project-pipelines",
        "PIPELINES_TEMPLATE_REPOSITORY": f"https://{cloud.region}-kfp.pkg.dev/my-project/pipelines-templates",
        "PIPELINES_SERVICE_ACCOUNT": "pipelines-runner@my-project.iam.gserviceaccount.com",
        "PIPELINES_IMAGE": f"{cloud.region}-docker.pkg.dev/my-project/pipelines-images/training@sha256:{'0123' * 16}",
    }
    place.environment |= cloud.environment | cloud.bigquery.environment | settings
    for words in ("git init -q", "git add .", "git -c user.name=you -c user.email=you@example.com commit -qm demo"):
        place.run(words)
    if bare:
        for name in ("PIPELINES_PROJECT", "PIPELINES_REGION", *settings):
            del place.environment[name]
    else:
        cloud.artifacts.add_image(settings["PIPELINES_IMAGE"], "latest")
        quota = "CustomModelTrainingL4GPUsPerProjectPerRegion"
        metric = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
        cloud.quotas.set(quota, 8, metric=metric, region=cloud.region)
    if not tables:  # pyarrow and DuckDB crash under the container's clock
        cloud.clock.run(SPEED)
        place.environment |= {**cloud.clock.variables, "PYTHONPATH": str(_CONTAINER)}
