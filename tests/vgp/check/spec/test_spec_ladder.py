"""Two launchers that were given the same would take each other's job away: no pipeline has such."""

import json
import warnings

import pytest

from components import step
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_ladder import refuse_same_inputs
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.workflow.compiling.vertex import Vertex

LADDER = [{"strategy": "spot"}, {}]


@step
def train(x: int, y: int = 0, name: str = ""):
    print(x, y, name)


@step
def choose(x: int) -> int:
    return x


@pytest.fixture
def spec(tmp_path):
    """The spec of a pipeline that is made of `train` with a ladder, or without."""

    def compiled(body, capacity=LADDER):
        from kfp import compiler, dsl

        asked = Request(machine="g2-standard-4", timeout="6h", capacity=capacity)
        target = Vertex(Settings(image="us-docker.pkg.dev/p/r/training:1", steps={"train": asked}))
        climb, plain = target.job(train), target.step(choose)

        @dsl.pipeline(name="one")
        def one(rates: list = [1, 2], x: int = 1):  # noqa: B006
            body(dsl, climb, plain, rates, x)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler.Compiler().compile(one, str(tmp_path / "p.json"))
        return PipelineSpec(json.loads((tmp_path / "p.json").read_text()))

    return compiled


def over(items, **given):
    def body(dsl, climb, plain, rates, x):
        with dsl.ParallelFor(items) as item:
            climb(**{name: of(item) if callable(of) else of for name, of in given.items()})

    return body


def test_turns_that_are_given_the_same_are_refused(spec):
    with pytest.raises(
        RequestError, match=r"each iteration of for-loop-\d+ has equal inputs: they would take each other's"
    ):
        refuse_same_inputs(spec(over([1, 2], x=1)))


def test_turns_over_the_same_value_are_refused_and_it_is_named(spec):
    with pytest.raises(RequestError, match=r"iterations of for-loop-\d+ have equal inputs, 3: "):
        refuse_same_inputs(spec(over([3, 1, 3], x=lambda item: item)))
    members = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    with pytest.raises(RequestError, match="have equal inputs, 1: "):
        refuse_same_inputs(spec(over(members, x=lambda item: item.a)))
    refuse_same_inputs(spec(over(members, x=lambda item: item.a, y=lambda item: item.b)))


def test_turns_that_differ_may_climb_side_by_side(spec):
    refuse_same_inputs(spec(over([1, 2, 3], x=lambda item: item)))
    refuse_same_inputs(spec(over([1, 2], x=1, name=lambda item: f"number {item}")))


def test_what_another_step_of_the_turn_made_is_the_turns_own(spec):
    def body(dsl, climb, plain, rates, x):
        with dsl.ParallelFor([1, 2]) as item:
            climb(x=plain(x=item).output)

    refuse_same_inputs(spec(body))

    def outside(dsl, climb, plain, rates, x):
        made = plain(x=x)
        with dsl.ParallelFor([1, 2]):
            climb(x=made.output)

    with pytest.raises(RequestError, match=r"each iteration of for-loop-\d+"):
        refuse_same_inputs(spec(outside))


def test_a_group_within_the_turn_changes_nothing(spec):
    def body(dsl, climb, plain, rates, x):
        with dsl.ParallelFor([1, 2]) as item, dsl.If(x == 1):
            climb(x=item)

    refuse_same_inputs(spec(body))

    def same(dsl, climb, plain, rates, x):
        with dsl.ParallelFor([1, 2]), dsl.If(x == 1):
            climb(x=x)

    with pytest.raises(RequestError, match=r"each iteration of for-loop-\d+"):
        refuse_same_inputs(spec(same))


def test_values_of_a_parameter_are_looked_at_when_a_run_has_them(spec):
    def body(dsl, climb, plain, rates, x):
        with dsl.ParallelFor(rates) as rate:
            climb(x=rate)

    found = spec(body)
    refuse_same_inputs(found)
    refuse_same_inputs(found, {})
    refuse_same_inputs(found, {"rates": [1, 2, 3]})
    with pytest.raises(RequestError, match="have equal inputs, 2: "):
        refuse_same_inputs(found, {"rates": [1, 2, 2]})


def test_the_same_step_twice_needs_different_inputs_unless_it_is_in_different_branches(spec):
    def twice(dsl, climb, plain, rates, x):
        climb(x=x)
        climb(x=x)

    with pytest.raises(RequestError, match="train and train-2 have the same ladder and equal inputs"):
        refuse_same_inputs(spec(twice))

    def apart(dsl, climb, plain, rates, x):
        climb(x=x)
        climb(x=2)

    refuse_same_inputs(spec(apart))

    def either(dsl, climb, plain, rates, x):
        with dsl.If(x == 1):
            climb(x=x)
        with dsl.Else():
            climb(x=x)

    refuse_same_inputs(spec(either))


def test_without_a_ladder_turns_may_do_the_same(spec):
    refuse_same_inputs(spec(over([1, 1], x=1), capacity=[]))
