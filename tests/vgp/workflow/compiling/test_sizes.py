"""A template holds several sizes of a step, all checked; a run chooses one by a parameter of the pipeline."""

import json
import warnings

import pytest
from pydantic import ValidationError

from components import step
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check.checker import check
from vgp.check.spec import spec_ladder
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.step_request import Request
from vgp.protocol.capacity.plan import Plan
from vgp.settings import Settings
from vgp.workflow.compiling.compile import verify
from vgp.workflow.compiling.sizes import add_size_parameters
from vgp.workflow.compiling.vertex import Vertex

IMAGE = "us-docker.pkg.dev/p/r/training:1"
SIZES = {
    "small": {"machine": "g2-standard-4"},
    "large": {"capacity": [{"accelerator": "L4", "count": 8, "strategy": "spot"}, {"accelerator": "L4", "count": 8}]},
}


@step
def train(x: int):
    print(x)


def compiled(component, tmp_path, **asked):
    """The component in a group, as retraining has it behind its decision."""
    from kfp import compiler, dsl

    ready = Vertex(Settings(image=IMAGE, steps={component.name: Request(timeout="6h", **asked)})).job(component)

    @dsl.pipeline(name="one")
    def one(x: int = 1, go: str = "yes"):
        with dsl.If(go == "yes"):
            ready(x=x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(one, str(tmp_path / "p.json"))
    return add_size_parameters(PipelineSpec(json.loads((tmp_path / "p.json").read_text())))


@pytest.fixture
def spec(tmp_path):
    return compiled(train, tmp_path, machine="g2-standard-24", sizes=SIZES)


def test_the_form_has_a_parameter_with_the_sizes_what_they_are_and_the_default(spec):
    declared = spec.content["root"]["inputDefinitions"]["parameters"]["train_size"]
    assert declared["parameterType"] == "STRING" and declared["defaultValue"] == "small"
    assert "small (g2-standard-4 with 1 x NVIDIA_L4, $" in declared["description"]
    assert "large (g2-standard-96 with 8 x NVIDIA_L4, $" in declared["description"]
    assert declared["description"].endswith("/hour, then 1 other rung).")


def test_the_parameter_reaches_the_launcher_through_the_groups_around_it(spec):
    verify(spec)
    (group,) = (each for each in spec.content["components"].values() if "dag" in each)
    channel = "pipelinechannel--train_size"
    assert group["inputDefinitions"]["parameters"][channel] == {"parameterType": "STRING"}
    given = {"componentInputParameter": channel}
    assert group["dag"]["tasks"]["train"]["inputs"]["parameters"]["size"] == given
    (outer,) = (each for each in spec.content["root"]["dag"]["tasks"].values())
    assert outer["inputs"]["parameters"][channel] == {"componentInputParameter": "train_size"}
    assert spec_ladder.size_choices(spec) == {"train_size": ("small", "large")}
    args = spec.containers["train"]["args"]
    assert args[args.index("--size") + 1] == "{{$.inputs.parameters['size']}}"
    plan = Plan.from_json(args[args.index("--plan") + 1])
    assert [len(plan.of_size(size).rungs) for size in SIZES] == [1, 2]
    with pytest.raises(ValueError, match="one of small, large"):
        plan.of_size("huge")


def test_a_pipeline_with_a_parameter_of_that_name_is_reported(spec):
    with pytest.raises(RequestError, match="the pipeline has a parameter train_size, a name that"):
        add_size_parameters(spec)


def test_the_form_counts_all_nodes_of_a_size(tmp_path):
    content = compiled(train, tmp_path, sizes={"wide": {"machine": "g2-standard-4", "nodes": 3}}).content
    description = content["root"]["inputDefinitions"]["parameters"]["train_size"]["description"]
    assert "wide (3 x g2-standard-4 with 1 x NVIDIA_L4" in description


def test_all_sizes_are_checked_and_the_dearest_counts(spec):
    (row,) = (row for row in check([Document("p.json", dict(spec.content), "")]).steps if row.rungs)
    assert [rung.name.split()[0] for rung in row.rungs] == ["small", "large", "large"]
    assert row.rungs[0].most_usd == 0 < row.rungs[1].most_usd


def test_a_run_that_names_no_size_of_the_template_is_refused(spec):
    spec_ladder.refuse_sizes(spec, {})
    spec_ladder.refuse_sizes(spec, {"train_size": "large"})
    with pytest.raises(RequestError, match=r"train_size = 'lagre': there is no such size. Did you mean large\?"):
        spec_ladder.refuse_sizes(spec, {"train_size": "lagre"})


def test_the_default_is_the_one_that_the_settings_name(tmp_path):
    spec = compiled(train, tmp_path, sizes=SIZES, size="large")
    assert spec.defaults["train_size"] == "large"


def test_without_sizes_no_parameter_appears(tmp_path):
    spec = compiled(train, tmp_path, machine="g2-standard-4")
    assert set(spec.parameters) == {"x", "go"} and spec_ladder.size_choices(spec) == {}
    climbing = compiled(train, tmp_path, capacity=SIZES["large"]["capacity"])
    assert set(climbing.parameters) == {"x", "go"} and "--size" not in climbing.containers["train"]["args"]


def test_a_size_that_cannot_be_is_refused_by_its_name(tmp_path):
    with pytest.raises(PlacementError, match="train, size huge, rung 1"):
        compiled(train, tmp_path, sizes={"small": {}, "huge": {"machine": "g2-standard-4", "count": 7}})
    for asked, words in {
        "size": ({"size": "x", "sizes": SIZES}, "size = 'x': one of small, large"),
        "none": ({"size": "x"}, "the step has no sizes"),
        "name": ({"sizes": {"A b": {}}}, "not a valid name of a size"),
        "inside": ({"sizes": {"small": {"strategy": "spot", "max_wait": "2h"}}}, "max_wait is for strategy"),
    }.values():
        with pytest.raises(ValidationError, match=words):
            Request(**asked)


def test_a_size_that_names_a_machine_has_no_ladder_of_the_step_and_another_keeps_it():
    request = Request(
        capacity=SIZES["large"]["capacity"], sizes={"one": {"machine": "g2-standard-4"}, "wide": {"nodes": 4}}
    )
    assert len(request.of_size("one").capacity) == 1 and request.of_size("one").machine == "g2-standard-4"
    assert len(request.of_size("wide").capacity) == 2 and request.of_size("wide").nodes == 4


def test_a_step_with_an_input_of_that_name_is_reported(tmp_path):
    @step
    def train(x: int, size: str = ""):
        print(x, size)

    with pytest.raises(RequestError, match="has an input size, a name that"):
        compiled(train, tmp_path, sizes=SIZES)


def test_a_plain_step_has_no_sizes():
    target = Vertex(Settings(image=IMAGE, steps={"train": Request(sizes=SIZES)}))
    with pytest.raises(PlacementError, match="sizes is not possible for a plain step"):
        target.step(train)
