"""The folder of a run: of one workflow, whatever its pipeline is called."""

from pathlib import Path

import pytest

from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import find_repository
from vgp.workflow.local import local_folder
from vgp.workflow.local.local_run import resume_run

REPOSITORY = find_repository(Path(__file__).parents[2] / "small" / "pipelines.toml")
#: kfp allows no _ in the name of a pipeline, and Python no - in that of a module.
SPEC = PipelineSpec({"pipelineInfo": {"name": "language-model"}})


def test_a_run_is_found_again_by_the_name_of_its_workflow(tmp_path: Path) -> None:
    run = local_folder.create(tmp_path, "language_model", SPEC, {"a": 1}, REPOSITORY)
    again = local_folder.open_run(run.folder, "language_model", REPOSITORY)
    assert (again.workflow, again.arguments, again.spec) == ("language_model", {"a": 1}, SPEC)
    with pytest.raises(RequestError, match="is a run of language_model, not of training"):
        local_folder.open_run(run.folder, "training", REPOSITORY)


def test_the_pins_of_an_earlier_start_are_gone_on_with_also_in_a_folder_that_was_moved(tmp_path: Path) -> None:
    spec = PipelineSpec({"root": {"inputDefinitions": {"parameters": {"pins": {"parameterType": "STRING"}}}}})
    run = local_folder.create(tmp_path, "one", spec, {"epochs": 3}, REPOSITORY)
    local_folder.keep_pins(run)
    assert run.arguments == {"epochs": 3}, "nothing was pinned yet"
    written = run.folder / "steps" / "one-2026-11-21-1" / "resolve" / "executor_output.json"
    written.parent.mkdir(parents=True)
    written.write_text('{"parameterValues": {"uri": "/before/pins/4be6.json"}}')
    local_folder.keep_pins(run)
    assert local_folder.open_run(run.folder, "one", REPOSITORY).arguments == {
        "epochs": 3,
        "pins": "/before/pins/4be6.json",
    }
    (run.folder / "pins").mkdir()
    (run.folder / "pins" / "4be6.json").write_text("{}")
    local_folder.keep_pins(run)
    assert run.arguments["pins"] == str(run.folder / "pins" / "4be6.json")


def test_it_goes_on_with_as_many_processes_unless_another_number_is_given(tmp_path: Path) -> None:
    path = local_folder.create(tmp_path, "language_model", SPEC, {}, REPOSITORY, nproc=2).folder
    again = resume_run("language_model", path, REPOSITORY)
    assert (again.nproc, again.nodes) == (2, None) and "--nproc" not in again.format_resume_command()
    assert resume_run("language_model", path, REPOSITORY, nproc=4).nproc == 4
    assert resume_run("language_model", path, REPOSITORY).nproc == 4, "the last value"
    with pytest.raises(RequestError, match="--nproc 0: at least 1 process"):
        resume_run("language_model", path, REPOSITORY, nproc=0)
    assert local_folder.open_run(path, "language_model", REPOSITORY).nproc == 4


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"workflow": "a"}', '{"workflow": "a", "arguments": 3}', '{"nproc": "two"}']
)
def test_any_other_folder_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "request.json").write_text(text)
    with pytest.raises(RequestError, match="is not the folder of a run"):
        local_folder.open_run(tmp_path, "a", REPOSITORY)


def test_the_way_on_names_the_settings_where_they_are_not_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = local_folder.create(tmp_path, "small", SPEC, {}, REPOSITORY)
    monkeypatch.chdir(REPOSITORY.folder)
    assert "--settings" not in run.format_resume_command()
    monkeypatch.chdir(tmp_path)
    assert "--settings " in run.format_resume_command()
