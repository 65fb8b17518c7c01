"""A project takes this version of the library; what is its owner's is never written to."""

import io
import zipfile
from pathlib import Path

import pytest

from vgp.base.errors import RequestError
from vgp.workflow.project.originals import WHEEL_NAME
from vgp.workflow.project.project_files import PIN, apply, plan, write

OLD = "vgp-0.0.9-py3-none-any.whl"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write("churn", tmp_path)


def age(project: Path, **originals: str) -> None:
    """Gives the project an older wheel, in which these originals had another text."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as older, zipfile.ZipFile(project / WHEEL_NAME) as now:
        for name in now.namelist():
            if name.startswith("vgp/originals/"):
                text = now.read(name)
                for place, line in originals.items():
                    text = line.encode() + text if name == f"vgp/originals/components/{place}.py" else text
                older.writestr(name, text)
    (project / WHEEL_NAME).unlink()
    (project / OLD).write_bytes(packed.getvalue())
    (project / PIN).write_text(f"./{OLD} --hash=sha256:{'0' * 64}\n")


def contents(project: Path) -> dict[str, bytes]:
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_a_fresh_project_needs_nothing(project: Path) -> None:
    before = contents(project)
    update = plan(project)
    apply(update)
    assert (update.writes, update.removes, update.diff) == ({}, "", "")
    assert contents(project) == before


def test_an_older_project_takes_the_wheel_and_a_second_update_does_nothing(project: Path) -> None:
    fresh = contents(project)
    age(project)
    update = plan(project)
    assert (update.before, update.after, sorted(update.writes), update.removes) == (
        "0.0.9", "0.1.0", [WHEEL_NAME, PIN], OLD,
    )  # fmt: skip
    apply(update)
    assert contents(project) == fresh
    assert not plan(project).writes


def test_what_is_its_owners_stays_and_what_changed_in_ours_is_shown(project: Path) -> None:
    (project / "components/train.py").write_text("mine\n")
    (project / "pipelines.toml").write_text("# mine\n")
    age(project, evaluate="# gone since\n")
    update = plan(project)
    apply(update)
    assert (project / "components/train.py").read_text() == "mine\n"
    assert (project / "pipelines.toml").read_text() == "# mine\n"
    assert [line for line in update.diff.splitlines() if line.startswith("-")] == [
        "--- components/evaluate.py (then)", "-# gone since",
    ]  # fmt: skip


def test_an_update_that_was_cut_off_goes_on(project: Path) -> None:
    """The wheel is there already, the pin is the old one."""
    fresh = contents(project)
    age(project)
    (project / WHEEL_NAME).write_bytes(fresh[WHEEL_NAME])
    update = plan(project)
    assert list(update.writes) == [PIN]
    apply(update)
    assert contents(project) == fresh


def test_an_older_command_does_not_take_a_newer_project_back(project: Path) -> None:
    (project / PIN).write_text(f"./vgp-12.0.0-py3-none-any.whl --hash=sha256:{'0' * 64}\n")
    with pytest.raises(RequestError, match=r"version 12\.0\.0 .* newer than this command, 0\.1\.0"):
        plan(project)


def test_a_damaged_wheel_is_reported_as_damaged(project: Path) -> None:
    age(project)
    (project / OLD).write_bytes(b"PK")
    with pytest.raises(RequestError, match="is damaged"):
        plan(project)
    assert (project / OLD).is_file()


@pytest.mark.parametrize("pin", [None, "", "vgp==0.1.0\n", "./other-1.0-py3-none-any.whl\n"])
def test_a_repository_of_another_kind_is_none(tmp_path: Path, pin: str | None) -> None:
    if pin is not None:
        (tmp_path / PIN).write_text(pin)
    with pytest.raises(RequestError, match="has no vgp.txt that pins the library"):
        plan(tmp_path)


def test_the_error_for_a_project_of_the_earlier_form_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "training/lock").mkdir(parents=True)
    (tmp_path / "training/lock/vendored.json").write_text("{}")
    with pytest.raises(RequestError, match="vgp new project NAME"):
        plan(tmp_path)
