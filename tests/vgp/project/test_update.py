"""The vendored copy becomes that of this version; what its owner did is never lost, and twice is once."""

import json
from pathlib import Path
from typing import Any

import pytest
from vgp.workflow.project.manifest import PATH, digest

from vgp.base.errors import RequestError
from vgp.workflow.project.new import write
from vgp.workflow.project.update import apply, other_base, plan

VGP = "vertex-gpu-pipelines==0.1.0"
CHANGED, EDITED, OLD = "vgp/train/fit.py", "vgp/steps/calls.py", "training/deep/old.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write("churn", VGP, tmp_path)


def rewrite(project: Path, **values: Any) -> None:
    """Changes the manifest."""
    manifest = json.loads((project / PATH).read_text())
    (project / PATH).write_text(json.dumps({**manifest, **values}))


def age(project: Path, *paths: str, version: str = "0.0.9") -> None:
    """Makes the copy that of an older version, which had another text in these files."""
    files = json.loads((project / PATH).read_text())["files"]
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(f"old {path}")
        files[path] = digest(f"old {path}".encode())
    rewrite(project, version=version, files=files)


def contents(project: Path) -> dict[str, bytes]:
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_a_fresh_copy_needs_nothing(project: Path) -> None:
    before = contents(project)
    assert apply(plan(project, VGP)) == ()
    assert contents(project) == before


def test_an_older_copy_becomes_this_versions_and_a_second_run_does_nothing(project: Path) -> None:
    fresh = contents(project)
    age(project, CHANGED, OLD)
    (project / "vgp/train/config.py").unlink()
    changes = {change.path: change.action for change in apply(plan(project, VGP))}
    assert changes == {CHANGED: "change", OLD: "remove", "vgp/train/config.py": "add"}
    assert contents(project) == fresh
    assert not (project / "training/deep").exists()
    assert plan(project, VGP).changes == ()


def test_what_is_its_owners_is_not_looked_at(project: Path) -> None:
    mine = ("pipelines/training.py", "tasks/digits.py", "Dockerfile", "pipelines.toml", "training/tasks/mine.py")
    for path in mine:
        (project / path).write_text("mine")
    age(project, CHANGED)
    apply(plan(project, VGP))
    assert all((project / path).read_text() == "mine" for path in mine)


def test_an_edited_file_for_which_there_is_nothing_new_is_no_obstacle(project: Path) -> None:
    age(project, CHANGED)
    (project / EDITED).write_text("mine")
    assert [change.path for change in apply(plan(project, VGP))] == [CHANGED]
    assert (project / EDITED).read_text() == "mine"
    assert plan(project, VGP).changes == ()


def test_an_edited_file_that_would_change_stops_everything(project: Path) -> None:
    age(project, CHANGED, EDITED, OLD)
    for path in (EDITED, OLD):
        (project / path).write_text("mine")
    before = contents(project)
    with pytest.raises(
        RequestError, match="you edited what this version changes: training/deep/old.py, vgp/steps/calls"
    ):
        apply(plan(project, VGP))
    assert contents(project) == before


def test_edited_files_stay_or_go_as_their_owner_says(project: Path, tmp_path: Path) -> None:
    age(project, CHANGED, EDITED)
    (project / EDITED).write_text("mine")
    assert [change.path for change in apply(plan(project, VGP), "keep")] == [CHANGED]
    assert (project / EDITED).read_text() == "mine"
    assert plan(project, VGP).changes == (), "kept once, it is no obstacle until there is something new for it"
    again = plan(project, VGP, overwrite=True)
    assert [(change.path, change.edited) for change in apply(again, "overwrite")] == [(EDITED, True)]
    assert "mine" not in (project / EDITED).read_text()
    age(project, CHANGED, EDITED)
    (project / EDITED).write_text("mine")
    assert [change.path for change in apply(plan(project, VGP), "overwrite")] == [CHANGED, EDITED]
    assert "mine" not in (project / EDITED).read_text()


def test_a_file_of_ones_own_in_the_place_of_a_new_one_counts_as_edited(project: Path) -> None:
    files = json.loads((project / PATH).read_text())["files"]
    del files[CHANGED]
    (project / CHANGED).write_text("mine")
    rewrite(project, files=files)
    with pytest.raises(RequestError, match=CHANGED):
        apply(plan(project, VGP))


def test_an_update_that_was_cut_off_is_gone_on_with(project: Path) -> None:
    """Some files are new already, the manifest is the old one."""
    fresh = contents(project)
    age(project, CHANGED, EDITED)
    (project / CHANGED).write_bytes(fresh[CHANGED])
    assert [change.path for change in apply(plan(project, VGP))] == [EDITED]
    assert contents(project) == fresh


def test_what_installs_the_command_is_renewed_with_the_code(project: Path) -> None:
    (change,) = apply(plan(project, "vertex-gpu-pipelines==0.2.0"))
    assert (project / change.path).read_text() == "vertex-gpu-pipelines==0.2.0\n"
    assert change.path in (project / "setup.sh").read_text()


def test_a_dockerfile_with_another_base_is_left_and_named(project: Path) -> None:
    assert other_base(project) == ""
    dockerfile = project / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("sha256:", "sha256:0"))
    assert other_base(project).startswith("note: this version was tested on another base")


def test_an_older_command_does_not_take_a_newer_copy_back(project: Path) -> None:
    rewrite(project, version="12.0.0")
    with pytest.raises(RequestError, match="is of version 12.0.0, this command of 0.1.0"):
        plan(project, VGP)


def test_nothing_is_written_through_a_link_out_of_the_project(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (project / "vgp/decision/report").rename(elsewhere)
    (project / "vgp/decision/report").symlink_to(elsewhere)
    with pytest.raises(RequestError, match="vgp/decision/report/.* is a link out of the project"):
        plan(project, VGP)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": "1", "files": {"../x": "%s"}}', '{"version": "1", "files": {"/etc/x": "%s"}}',
     '{"version": "1", "files": {"a": "1"}}', '{"version": 1, "files": {}}', '{"version": "1", "files": {"a": 1}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_said_to_be_damaged(project: Path, text: str) -> None:
    (project / PATH).write_text(text.replace("%s", "0" * 64))
    with pytest.raises(RequestError, match="vendored.json is damaged"):
        plan(project, VGP)


def test_a_repository_of_another_kind_is_none(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="was not written by `vgp new project`"):
        plan(tmp_path, VGP)
