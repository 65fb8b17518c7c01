"""Which steps may overlap: on pipelines that kfp compiles, with the names that the checker gives their steps."""

from pathlib import Path

import pytest
from kfp import dsl

from vgp.base.documents.document import Document
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings, repository_of
from vgp.vertex.preflight.quota import order
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.vertex import Vertex

REPOSITORY = Path(__file__).parents[4]


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def work(given: str = "") -> str:
    return given


def task(*after):
    """A step that waits for others; kfp calls them work, work-2, ... in the order of their making."""
    made = work(given="x")
    return made.after(*after) if after else made


def names_of(made):
    return {row.step for row in check([Document("p.json", made, "")]).steps}


def test_the_steps_of_a_chain_never_overlap():
    made = workflow_files.compiled("training", Vertex(Settings()), repository_of(REPOSITORY / "pipelines.toml")).content
    found = order(PipelineSpec(made))
    assert set(found.before) == names_of(made)
    assert all(found.beside(step) == {step} for step in found.before)
    assert found.before["decide"] == {"resolve", "prepare", "train", "evaluate"}
    assert found.before["register"] == {"decide", *found.before["decide"]}
    assert found.before["notify"] == {"register", *found.before["register"]}


def test_branches_overlap_and_what_follows_both_does_not(compiled):
    def build():
        first = task()
        left, right = task(first), task(first)
        task(left, right)

    found = order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.beside("work-2") == {"work-2", "work-3"}
    assert found.beside("work") == {"work"} and found.beside("work-4") == {"work-4"}


def test_steps_in_groups_wait_for_what_their_group_waits_for(compiled):
    def build():
        first = task()
        with dsl.If(first.output == "x"):
            inner = task()
            task(inner)
        task()

    made = compiled(dsl.pipeline(name="p")(build))
    found = order(PipelineSpec(made))
    assert set(found.before) == names_of(made)
    assert found.before["work-3"] == {"work", "work-2"}
    assert found.beside("work-3") == {"work-3", "work-4"}


def test_a_step_after_a_group_waits_for_all_in_it(compiled):
    def build():
        clean = task()
        with dsl.ExitHandler(clean):
            task()
            task()

    found = order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.before["work"] == {"work-2", "work-3"}
    assert found.beside("work-2") == {"work-2", "work-3"}


@pytest.mark.parametrize(("limit", "copies"), [(None, 3), (2, 2), (8, 3)])
def test_a_loop_starts_its_items_at_once_up_to_its_limit(compiled, limit, copies):
    def build():
        with dsl.ParallelFor(["a", "b", "c"], parallelism=limit):
            task()
        task()

    found = order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.copies == {"work": copies, "work-2": 1}


def test_loops_in_loops_multiply(compiled):
    def build():
        with dsl.ParallelFor([1, 2, 3]), dsl.ParallelFor([4, 5]):
            task()

    assert order(PipelineSpec(compiled(dsl.pipeline(name="p")(build)))).copies == {"work": 6}


def test_equal_names_in_groups_are_told_apart_as_the_checker_does():
    task = {"componentRef": {"name": "comp-work"}}
    made = {
        "root": {"dag": {"tasks": {"work": task, "group": {"componentRef": {"name": "comp-group"}}}}},
        "components": {
            "comp-work": {"executorLabel": "exec-work"},
            "comp-group": {"dag": {"tasks": {"work": task}}},
        },
        "deploymentSpec": {"executors": {"exec-work": {"container": {"image": "python:3.11"}}}},
    }
    assert set(order(PipelineSpec(made)).before) == names_of(made) == {"work", "group/work"}
