"""The workflow training as it is, with steps that only return: both branches, proven under the exit handler."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.vgp.workflow.local.test_execution import states, write_run
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import find_repository
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local, mark_pinned
from vgp.workflow.local import local_run
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.local_run import Result
from vgp.workflow.local.proof import prove

REPOSITORY = find_repository(Path(__file__).parents[4] / "pipelines.toml")
#: What the steps return in place of their work.
RETURNS = {
    "resolve": '"train" if force else "skip", "the reason", "d", "u", "pins", "", "root", "flights", {"epochs": 1}, {}',
    "decide": '"keep"',
    "register": '"kept", "not registered"',
}
BRANCH = ("prepare", "train", "evaluate", "decide", "register")


class Hollow(Local):
    """This machine, with every step's body taken out."""

    def step(self, component: Any, pinned: bool = False, bigquery_of: str = "", tracked: bool = False) -> Any:
        copied = copy.deepcopy(component)
        command = copied.component_spec.implementation.container.command
        head, _, _ = command[-1].partition("\n    from vgp")
        command[-1] = f"{head}\n    return {RETURNS.get(component.name, 'None')}\n"
        return mark_pinned(copied, pinned)

    def job(self, component: Any, pinned: bool = False, collect: Any = None, form: Any = None) -> Any:
        return self.step(component, pinned)


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return dict(workflow_files.compile_workflow("training", Hollow(), REPOSITORY).content)


@pytest.mark.parametrize(("force", "branch"), [(False, "skipped"), (True, "succeeded")])
def test_both_branches_are_proven_under_the_exit_handler(
    spec: dict[str, Any], tmp_path: Path, force: bool, branch: str
) -> None:
    write_run(tmp_path / "run", spec, {"force": force})
    run = Run(tmp_path / "run", "training", {"force": force}, REPOSITORY)
    steps = local_run._execute(run, lambda event: None)
    assert states(steps) == {"resolve": "succeeded", **dict.fromkeys(BRANCH, branch), "notify": "succeeded"}
    assert not run.failed and Result(run, steps).succeeded
    if not force:
        assert "its condition does not hold" in next(step for step in steps if step.name == "train").why


def test_a_step_that_ran_though_its_branch_was_not_taken_fails_the_proof(spec: dict[str, Any], tmp_path: Path) -> None:
    start = tmp_path / "training-1"
    for name, written in (("resolve", '{"parameterValues": {"Output": "skip"}}'), ("train", "{}"), ("notify", "{}")):
        (start / name).mkdir(parents=True)
        (start / name / "executor_output.json").write_text(written)
    run = Run(tmp_path, "training", {}, REPOSITORY)
    (tmp_path / "pipeline.json").write_text(json.dumps(spec))
    steps = prove(run.spec, {}, [start])
    assert {step.name for step in steps if step.state == "missing"} == {"train"}
    assert "it ran, though its condition does not hold" in Result(run, steps).describe_failure()


def test_all_that_follows_the_first_step_stands_behind_its_decision(spec: dict[str, Any]) -> None:
    whole = PipelineSpec(spec)
    (branch,) = [task for _, task in whole.walk() if task.condition]
    assert set(branch.component.tasks) == set(BRANCH)
    assert "resolve-Output" in branch.condition and "'train'" in branch.condition
    assert {step.name for step in whole.steps} == {"resolve", *BRANCH, "notify"}, "no branch in their names"


def test_a_pipeline_of_before_is_refused_with_the_way_out() -> None:
    with pytest.raises(RequestError, match='when = "drift"') as refused:
        workflow_files.compile_workflow("retraining", Hollow(), REPOSITORY)
    assert "Use training" in str(refused.value)
