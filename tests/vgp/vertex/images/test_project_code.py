"""vgp submit --code and vgp schedule apply --code: edited code in the spec's steps, without an image build."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.__main__ import main
from vgp.base.errors import RequestError
from vgp.protocol import code_archive, environment
from vgp.protocol.code_archive import MOST_BYTES
from vgp.settings import load
from vgp.vertex import clients
from vgp.vertex.images.project_code import ProjectCode, pack, upload

DIGEST = "@sha256:" + 64 * "0"
WORKFLOW = """
from kfp import dsl
from vgp.workflow import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def prepare(rows: int) -> int:
    return rows


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(rows: int) -> int:
    return rows


def build(target):
    first, second = target.step(prepare), target.job(train)

    @dsl.pipeline(name="own")
    def own(rows: int = 1):
        second(rows=first(rows=rows).output)

    return own
"""
TOML = f"""
project = "test-project"
bucket = "gs://test-bucket"
image = "us-central1-docker.pkg.dev/test-project/images/own{DIGEST}"

environment = "dev"

[environments.dev]
[environments.prod]

[steps.train]
machine = "g2-standard-8"

[schedules.nightly]
pipeline = "own"
cron = "0 3 * * *"
"""
FILES = {
    ".gitignore": "*.csv\n",
    ".dockerignore": "training/notes.md\n",
    "pipelines/own.py": WORKFLOW,
    "pipelines.toml": TOML,
    "training/__init__.py": "",
    "training/model.py": "WIDTH = 32\n",
    "training/notes.md": "not code",
    "training/data.csv": "1,2\n",
    "src/other.py": "",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(cloud: Cloud, root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def refusal(root: Path, **options: Any) -> str:
    with pytest.raises(RequestError) as refused:
        pack(load(root / "pipelines.toml"), **options)
    return str(refused.value)


def variables(spec: Any) -> list[str]:
    """Returns the archives in the environments of a spec, of plain steps and of custom jobs."""
    found = []
    if isinstance(spec, dict):
        found += [spec["value"]] if spec.get("name") == environment.CODE else []
        spec = list(spec.values())
    for inner in spec if isinstance(spec, list) else ():
        found += variables(inner)
    return found


def test_the_archive_holds_what_git_knows_of_the_listed_code(root: Path) -> None:
    packed = pack(load(root / "pipelines.toml"))
    assert packed.files == ("training/__init__.py", "training/model.py")
    (root / "pipelines.toml").write_text(f'code = ["training/model.py", "src"]\n{TOML}')
    assert pack(load(root / "pipelines.toml")).files == ("src/other.py", "training/model.py")


def test_each_step_names_the_archive_and_only_an_edit_makes_another_run(
    cloud: Cloud, root: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    first = json.loads(command("submit", "own", "--code", "--json", "--no-preflight")[1])
    (job,) = cloud.jobs.values()
    assert variables(first["code"]) == [] and job.labels["code"] == first["code"]["uri"].rpartition("/")[2][:32]
    spec = json.loads(command("submit", "own", "--code", "--json", "--dry-run")[1])["job"]["pipelineSpec"]
    assert variables(spec) == 2 * [first["code"]["uri"]]
    code, _, err = command("submit", "own", "--code", "--json", "--no-preflight")
    assert code == 4 and "is already there" in err and len(cloud.jobs) == 1
    (root / "training/model.py").write_text("WIDTH = 64\n")
    second = json.loads(command("submit", "own", "--code", "--json", "--no-preflight")[1])
    assert second["started"] and second["code"]["uri"] != first["code"]["uri"] and len(cloud.jobs) == 2


def test_equal_code_is_uploaded_once_and_a_changed_archive_is_refused(cloud: Cloud, root: Path) -> None:
    packed = pack(load(root / "pipelines.toml"))
    assert upload(packed) and not upload(packed)
    blob = clients.storage(packed.settings).bucket("test-bucket").blob(packed.uri.removeprefix("gs://test-bucket/"))
    assert blob.download_as_bytes() == packed.content
    blob.upload_from_string(packed.content[:-1] + b"x")
    with pytest.raises(RequestError, match="was changed after its upload"):
        upload(packed)


def test_of_commands_at_the_same_time_one_uploads_and_the_others_verify(cloud: Cloud, root: Path) -> None:
    packed, ready = pack(load(root / "pipelines.toml")), Barrier(4)

    def upload_together(code: ProjectCode) -> bool:
        ready.wait()
        return upload(code)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(upload_together, 4 * [packed])) == [False, False, False, True]
        other = replace(packed, content=packed.content + b"x", uri=f"{packed.uri.rpartition('/')[0]}/{64 * '0'}.tar")
        clashing = [replace(other, content=other.content + bytes([number])) for number in range(4)]
        uploads = [pool.submit(upload_together, code) for code in clashing]
        assert sorted(str(upload.exception() or "uploaded").split()[-1] for upload in uploads) == [
            *3 * [other.uri], "uploaded"
        ], "other bytes under one name are an error for all commands but the first"  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda file: file.write_text("-----BEGIN PRIVATE KEY-----"), "training/model.py looks like a credential"),
        (lambda file: file.unlink(), "training/model.py cannot be read"),
        (lambda file: file.write_bytes(bytes(MOST_BYTES + 1)), "10.0 MiB"),
    ],
)
def test_a_file_that_changes_after_its_size_was_read_is_checked_as_packed(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], error: str
) -> None:
    pack_files = code_archive.pack

    def change_and_pack(folder: Path, names: Sequence[str]) -> bytes:
        change(root / "training/model.py")
        return pack_files(folder, names)

    monkeypatch.setattr(code_archive, "pack", change_and_pack)
    assert error in refusal(root)


def test_a_name_that_is_not_utf_8_is_sent_as_it_is(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = os.fsdecode(b"training/caf\xe9.py")
    (root / name).write_text("X = 1\n")
    packed = pack(load(root / "pipelines.toml"))
    code_archive.unpack(packed.content, packed.uri, unpacked := tmp_path_factory.mktemp("step"))
    assert name in packed.files and (unpacked / name).read_text() == "X = 1\n"


def test_prod_and_schedules_take_it_only_where_allow_code_is_true(root: Path) -> None:
    toml = root / "pipelines.toml"
    assert "a schedule runs only code that is in its image" in refusal(root, schedule=True)
    with pytest.raises(RequestError, match="environment prod .*allow_code = true into .environments.prod."):
        pack(load(toml, environment="prod"))
    toml.write_text(f"allow_code = true\n{TOML}")
    assert pack(load(toml, environment="prod"), schedule=True).files
    toml.write_text(f"allow_code = false\n{TOML}")
    assert "the environment dev runs only code that is in its image" in refusal(root)


def test_a_schedule_runs_the_code_that_it_was_applied_with(
    cloud: Cloud, root: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    (root / "pipelines.toml").write_text(f"allow_code = true\n{TOML}")
    code, out, _ = command("schedule", "apply", "--code", "--yes", "--no-preflight")
    assert code == 0 and "uploaded" in out
    assert command("schedule", "plan", "--code", "--exit-code")[0] == 0
    assert command("schedule", "plan", "--exit-code")[0] == 3, "without --code it would run the image's code again"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("key.pem", "x"),
        ("ID_RSA", "x"),
        (os.fsdecode(b"caf\xe9.pem"), "x"),
        (".env", "A=b"),
        ("service.json", '{"private_key": "-----BEGIN PRIVATE KEY-----"}'),
    ],
)
def test_a_credential_is_named_and_nothing_is_sent(root: Path, name: str, text: str) -> None:
    (root / "training" / name).write_text(text)
    assert f"training/{name} looks like a credential" in refusal(root)


def test_too_much_code_is_refused_with_the_largest_files(root: Path) -> None:
    with (root / "training/weights.bin").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "training/weights.bin (10.0 MiB), training/model.py" in refusal(root)


def test_a_folder_without_files_a_link_out_and_a_template_are_refused(
    root: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    toml = root / "pipelines.toml"
    toml.write_text(f'code = ["tasks"]\n{TOML}')
    assert "code = ['tasks']: git knows no such file" in refusal(root)
    toml.write_text(TOML)
    (root / "training/link.py").symlink_to("/etc/hostname")
    assert "training/link.py is a symbolic link to a file outside" in refusal(root)
    code, _, err = command("submit", "own", "--code", "--template", "v1")
    assert code == 2 and "--template" in err


def test_a_step_on_dataflow_is_refused_since_its_workers_have_the_image_alone(root: Path) -> None:
    with (root / "pipelines.toml").open("a") as file:
        file.write('\n[steps.prepare.dataflow]\nregion = "us-central1"\n')
    assert "[steps.prepare.dataflow]" in refusal(root)
