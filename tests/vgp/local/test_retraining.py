"""The workflow retraining as it is, with steps that only return: both branches, proven under the exit handler."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.vgp.local.test_execution import states, write_run
from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import repository_of
from vgp.vertex.schedules import outlook
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local, marked
from vgp.workflow.local import execution
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.local_run import Result
from vgp.workflow.local.proof import prove

REPOSITORY = repository_of(Path(__file__).parents[3] / "pipelines.toml")
#: What the steps return in place of their work.
RETURNS = {
    "resolve": '"train" if force else "skip", "the reason", "d", "u", "data pins", "", "root", "flights"',
    "decide": '"keep"',
    "register": '"kept", "not registered"',
}
BRANCH = ("prepare", "train", "evaluate", "decide", "register")


class Hollow(Local):
    """This machine, with every step's body taken out."""

    def step(self, component: Any, pinned: bool = False, bigquery_of: str = "", tracked: bool = False) -> Any:
        copied = copy.deepcopy(component)
        command = copied.component_spec.implementation.container.command
        head, _, _ = command[-1].partition("\n    from training" if component.name != "notify" else "\n    from vgp")
        command[-1] = f"{head}\n    return {RETURNS.get(component.name, 'None')}\n"
        return marked(copied, pinned)

    def job(self, component: Any, pinned: bool = False, collect: Any = None) -> Any:
        return self.step(component, pinned)


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return dict(workflow_files.compiled("retraining", Hollow(), REPOSITORY).content)


@pytest.mark.parametrize(("force", "branch"), [(False, "skipped"), (True, "succeeded")])
def test_both_branches_are_proven_under_the_exit_handler(
    spec: dict[str, Any], tmp_path: Path, force: bool, branch: str
) -> None:
    write_run(tmp_path / "run", spec, {"force": force})
    run = Run(tmp_path / "run", "retraining", {"force": force}, REPOSITORY)
    steps = execution.execute(run, lambda event: None)
    assert states(steps) == {"resolve": "succeeded", **dict.fromkeys(BRANCH, branch), "notify": "succeeded"}
    assert not run.failed and Result(run, steps).succeeded
    if not force:
        assert "its condition does not hold" in next(step for step in steps if step.name == "train").why


def test_a_step_that_ran_though_its_branch_was_not_taken_fails_the_proof(spec: dict[str, Any], tmp_path: Path) -> None:
    start = tmp_path / "retraining-1"
    for name, written in (("resolve", '{"parameterValues": {"Output": "skip"}}'), ("train", "{}"), ("notify", "{}")):
        (start / name).mkdir(parents=True)
        (start / name / "executor_output.json").write_text(written)
    run = Run(tmp_path, "retraining", {}, REPOSITORY)
    (tmp_path / "pipeline.json").write_text(json.dumps(spec))
    steps = prove(run.spec, {}, [start])
    assert {step.name for step in steps if step.state == "missing"} == {"train"}
    assert "it ran, though its condition does not hold" in Result(run, steps).failure()


def test_a_plan_of_its_schedule_does_not_say_that_all_steps_run(spec: dict[str, Any]) -> None:
    assert outlook.decides(PipelineSpec(spec).root)
    assert not outlook.decides(PipelineSpec.read(REPOSITORY.root / "tests/golden/training.json").root)
    known = outlook.Outlook(run="retraining-1", pinned=BRANCH, decides=True)
    assert known.words(known.now, None) == "new data since retraining-1: resolve decides whether to train"


def test_behind_its_branch_it_is_the_pipeline_training(spec: dict[str, Any]) -> None:
    training = workflow_files.compiled("training", Hollow(), REPOSITORY)
    ours, theirs = (inputs(PipelineSpec(dict(content)).root) for content in (spec, training.content))
    assert {step: ours[step] for step in BRANCH} == {step: theirs[step] for step in BRANCH}


def inputs(group: Component) -> dict[str, dict[str, str]]:
    """What each step is given, by its input: a constant, or the name of a parameter of the pipeline or of an output."""
    found: dict[str, dict[str, str]] = {}
    for task in group.tasks.values():
        if task.component.is_group:
            found |= inputs(task.component)
            continue
        given = {**table(task.content, "inputs", "parameters"), **table(task.content, "inputs", "artifacts")}
        found[task.name] = {name: said(source) for name, source in given.items()}
    return found


def said(source: dict[str, Any]) -> str:
    if "runtimeValue" in source:
        return str(source["runtimeValue"]["constant"]).replace("retraining", "training")
    output = source.get("taskOutputParameter") or source.get("taskOutputArtifact")
    if output:
        return f"{output['producerTask']}-{output.get('outputParameterKey') or output['outputArtifactKey']}"
    return str(source.get("componentInputParameter")).removeprefix("pipelinechannel--")
