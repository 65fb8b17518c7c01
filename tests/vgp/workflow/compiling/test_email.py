"""Google's e-mail component beside the exit task of a workflow, as kfp itself would write it."""

from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.workflow.compiling import compile
from vgp.workflow.compiling.placing import add_email

NAME = "vertex-pipelines-notification-email"


@dsl.component(base_image="example.com/a:1", install_kfp_package=False)  # type: ignore[untyped-decorator]
def work() -> None:
    pass


@dsl.component(base_image="example.com/a:1", install_kfp_package=False)  # type: ignore[untyped-decorator]
def ours_notify(status: dsl.PipelineTaskFinalStatus) -> None:
    print(status)


def compiled(pipeline: Any, folder: Path) -> PipelineSpec:
    from kfp.compiler import Compiler

    Compiler().compile(pipeline, str(folder / "p.yaml"))
    import yaml

    return PipelineSpec(next(yaml.safe_load_all((folder / "p.yaml").read_text())))


@dsl.pipeline(name="handled")  # type: ignore[untyped-decorator]
def handled() -> None:
    with dsl.ExitHandler(ours_notify()):
        work()


@dsl.pipeline(name="bare")  # type: ignore[untyped-decorator]
def bare() -> None:
    work()


def test_both_exit_tasks_get_the_status_of_the_steps(tmp_path: Path) -> None:
    before = compiled(handled, tmp_path)
    spec = add_email(before, ["a@example.com", "b@example.com"])
    compile.verify(spec)
    tasks = spec.content["root"]["dag"]["tasks"]
    ours, mail = tasks["ours-notify"], tasks[NAME]
    assert mail["inputs"]["parameters"]["recipients"]["runtimeValue"]["constant"] == ["a@example.com", "b@example.com"]
    status = {"taskFinalStatus": {"producerTask": "exit-handler-1"}}
    assert (
        ours["inputs"]["parameters"]["status"] == mail["inputs"]["parameters"]["pipeline_task_final_status"] == status
    )
    assert [ours[key] for key in ("dependentTasks", "triggerPolicy")] == [
        mail[key] for key in ("dependentTasks", "triggerPolicy")
    ]
    assert "cachingOptions" not in mail, "a letter that was sent once is not sent by a cache"
    assert [step.name for step in spec.steps][-1] == NAME
    assert NAME not in before.content["root"]["dag"]["tasks"]


def test_a_workflow_that_sends_mail_itself_sends_no_other(tmp_path: Path) -> None:
    once = add_email(compiled(handled, tmp_path), ["a@example.com"])
    assert add_email(once, ["b@example.com"]) == once


def test_the_error_for_a_workflow_without_an_exit_handler_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"bare: \[notify\] email: .* dsl.ExitHandler, and this workflow has none"):
        add_email(compiled(bare, tmp_path), ["a@example.com"])
