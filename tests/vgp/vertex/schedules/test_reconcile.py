"""What is declared is compiled and checked before anybody is called, and applied with the cheap checks first."""

from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings, load
from vgp.vertex.schedules import declared_schedule, reconcile

NIGHTLY = '[schedules.nightly]\npipeline = "training"\ncron = "30 3 * * *"\ntime_zone = "Europe/Berlin"\n'

TRAINING = (Path(__file__).parents[3] / "golden/training.json").read_bytes()
HELLO = """
from kfp import dsl

@dsl.component(base_image="python@sha256:1", install_kfp_package=False)
def hello():
    print("hello")

def build(target):
    step = target.step(hello)

    @dsl.pipeline
    def say_hello():
        step()

    return say_hello
"""


@pytest.fixture
def write(cloud: Cloud, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Settings of a pipelines.toml with this text."""
    monkeypatch.chdir(repository)

    def settings(text: str) -> Settings:
        (repository / "pipelines.toml").write_text(text)
        return load()

    return settings


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("parameters = {epoch = 3}", "schedules.nightly: the pipeline has no parameter 'epoch'. Did you mean epochs?"),
        ('parameters = {epochs = "3"}', 'schedules.nightly: epochs = "3": epochs takes a number.'),
        ('parameters = {strategy = "fsdp"}', 'member of training_options: training_options.strategy = "fsdp"'),
        ('parameters.training_options = {stratgy = "fsdp"}', "no setting 'stratgy'. Did you mean strategy?"),
        ('parameters = {data = "/home/me/x.csv"}', "schedules.nightly: data = /home/me/x.csv: a step on Vertex AI"),
        ('parameters = {task = "flight"}', "schedules.nightly: .*flights"),
    ],
)
def test_what_is_wrong_is_refused_before_any_call(cloud: Cloud, write: Any, lines: str, message: str) -> None:
    settings = write(NIGHTLY + lines)
    for verb in (declared_schedule.read_declarations, reconcile.plan_all):
        with pytest.raises(RequestError, match=message):
            verb(settings)
    assert cloud.requests == []


def test_a_script_that_the_image_does_not_hold_is_refused(cloud: Cloud, write: Any, repository: Path) -> None:
    (repository / "Dockerfile").write_text("FROM scratch\nCOPY lib ./lib\n")
    (repository / "mine.py").touch()
    settings = write(NIGHTLY + '[steps.train]\ncommand = ["python", "mine.py"]\n')
    with pytest.raises(RequestError, match=r"^schedules\.nightly: .*the image does not hold mine\.py"):
        declared_schedule.read_declarations(settings)
    assert cloud.requests == []


def test_a_machine_that_cannot_be_is_refused(cloud: Cloud, write: Any) -> None:
    settings = write(NIGHTLY + '[steps.train]\naccelerator = "H100"\ncount = 3\n')
    with pytest.raises(RequestError, match="schedules.nightly: "):
        declared_schedule.read_declarations(settings)
    assert cloud.requests == []


def test_the_error_for_an_unknown_name_lists_the_declared_ones(write: Any) -> None:
    with pytest.raises(RequestError, match="no schedule 'nihgtly' is declared. Did you mean nightly?"):
        reconcile.plan_all(write(NIGHTLY), ["nihgtly"])
    with pytest.raises(RequestError, match="Declare one: write \\[schedules.NAME\\]"):
        reconcile.plan_all(write(""), ["nightly"])


def test_a_name_that_was_declared_once_can_be_pruned_alone(cloud: Cloud, write: Any) -> None:
    both = write(NIGHTLY + NIGHTLY.replace("nightly", "old"))
    reconcile.apply_all(both, reconcile.plan_all(both), log=lambda _: None)
    here = write(NIGHTLY)
    with pytest.raises(RequestError, match="no schedule 'old' is declared"):
        reconcile.plan_all(here, ["old"])
    (action,) = reconcile.plan_all(here, ["old"], prune=True)
    assert (action.kind, action.name) == ("prune", "old")
    assert reconcile.apply_all(here, [action], log=lambda _: None)[0].did == ["deleted"]
    assert [each.display_name for each in cloud.schedules.values()] == ["nightly"]


def test_a_second_apply_of_the_compiled_pipeline_finds_nothing_to_do(cloud: Cloud, write: Any) -> None:
    settings = write(NIGHTLY + "parameters = {epochs = 2, champion = 'gs://a/b'}")
    reconcile.apply_all(settings, reconcile.plan_all(settings), log=lambda _: None)
    assert [each.kind for each in reconcile.plan_all(settings)] == ["nothing"]


def test_the_cheap_checks_come_first_and_stop_everything(cloud: Cloud, write: Any) -> None:
    settings = write('bucket = "gs://no-such-bucket"\n' + NIGHTLY)
    settings = settings.model_copy(update={"bucket": "gs://no-such-bucket"})
    actions = reconcile.plan_all(settings)
    with pytest.raises(WorkFailed, match="preflight: nothing was started"):
        reconcile.apply_all(settings, actions)
    assert cloud.schedules == {}
    reconcile.apply_all(settings, actions, preflight=False, log=lambda _: None)
    assert len(cloud.schedules) == 1


def test_an_uploaded_version_is_pinned_by_its_digest(cloud: Cloud, write: Any) -> None:
    from vgp.vertex.schedules import schedule_list
    from vgp.vertex.templates.upload import upload
    from vgp.workflow.compiling.compile import compile_pipeline

    settings = write(NIGHTLY + 'template = "training:latest"')
    upload(settings, "training", compile_pipeline("training", settings).spec.text.encode(), tags=["latest"])
    (first,) = declared_schedule.read_declarations(settings)
    uri = schedule_list.job_of_schedule(first.message).template_uri
    assert uri.startswith("https://us-central1-kfp.pkg.dev/test-project/pipelines/training/sha256:")
    assert first.steps
    reconcile.apply_all(settings, reconcile.plan_all(settings), log=lambda _: None)
    assert [each.kind for each in reconcile.plan_all(settings)] == ["nothing"]

    bigger = write(NIGHTLY + 'template = "training:latest"\n[steps.train]\nmachine = "g2-standard-48"')
    assert [each.kind for each in reconcile.plan_all(bigger)] == ["nothing"]  # what runs is the uploaded one
    upload(bigger, "training", compile_pipeline("training", bigger).spec.text.encode(), tags=["latest"])
    (action,) = reconcile.plan_all(bigger)
    assert {"template", "pipeline"} <= {each.field for each in action.changes}
    assert "train: machine" in [each.field for each in action.template]


def test_a_workflow_is_found_in_templates_by_the_name_that_kfp_gave_it(cloud: Cloud, write: Any) -> None:
    from vgp.vertex.templates.upload import upload
    from vgp.workflow.compiling.compile import compile_pipeline

    Path("pipelines").unlink()
    Path("pipelines").mkdir()
    Path("pipelines/say_hello.py").write_text(HELLO)
    settings = write(NIGHTLY.replace("training", "say_hello") + 'template = "say-hello:latest"')
    upload(settings, "say-hello", compile_pipeline("say_hello", settings).spec.text.encode(), tags=["latest"])
    upload(settings, "training", TRAINING, tags=["latest"])
    assert declared_schedule.read_declarations(settings)[0].name == "nightly"
    with pytest.raises(RequestError, match='"training:latest" is not a version of the pipeline say_hello'):
        other = NIGHTLY.replace("training", "say_hello") + 'template = "training:latest"'
        declared_schedule.read_declarations(write(other))
