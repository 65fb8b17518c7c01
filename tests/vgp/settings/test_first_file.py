"""The first pipelines.toml: right as it is written, and with every example in it taken."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from vgp import settings
from vgp.base.errors import RequestError
from vgp.settings import first_file
from vgp.settings.first_file import QUESTIONS

REPOSITORY = Path(__file__).parents[3]
Write = Callable[[str], Path]


def answers(**given: str) -> dict[str, str]:
    found = {"project": "my-project", **given}
    for question in QUESTIONS:
        found.setdefault(question.key, question.default(found) or "")
    return found


def examples_taken(text: str) -> str:
    """The file with every example in effect: a # without a space after it is taken away."""
    return re.sub(r"^#(?=[^ \n])", "", text, flags=re.MULTILINE)


def without_examples(text: str) -> str:
    return re.sub(r"^#[^ \n].*\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_shipped_file_is_right_with_all_of_its_examples(write: Write, name: str) -> None:
    text = (REPOSITORY / "pipelines.toml").read_text()
    loaded = settings.load(write(examples_taken(text)), environment=name)
    assert loaded.project and loaded.bucket and loaded.labels == {"environment": name}
    assert set(loaded.schedules) == ({"nightly"} if name == "prod" else set())
    assert loaded.request("train").accelerator == ("H100" if name == "prod" else None)


def test_the_shipped_file_needs_no_project() -> None:
    loaded = settings.load(REPOSITORY / "pipelines.toml")
    assert loaded.environment is loaded.project is loaded.bucket is None
    steps = {"resolve", "prepare", "train", "evaluate", "decide", "register", "predict", "notify"}
    assert set(loaded.steps) == steps


@pytest.mark.parametrize("project", ["my-project", "example.com:my-project"])
@pytest.mark.parametrize("prod_project", ["my-project", "other-project"])
def test_the_first_file_is_right(write: Write, project: str, prod_project: str) -> None:
    text = first_file.format_file(answers(project=project, prod_project=prod_project), "")
    path = write(text)
    dev, prod = settings.load(path), settings.load(path, environment="prod")
    assert (dev.environment, dev.project, dev.bucket) == ("dev", project, "gs://my-project-pipelines")
    assert (prod.project, prod.bucket) == (prod_project, f"gs://{prod_project}-pipelines")
    assert f"/{prod_project}/" in str(prod.image) + "/"
    assert re.search(rf"@{prod_project}\b", str(prod.service_account))
    assert (dev.labels, prod.labels) == ({"environment": "dev"}, {"environment": "prod"})


def test_the_first_file_is_right_with_all_of_its_examples(write: Write) -> None:
    text = first_file.format_file(answers(), '[steps.train]\nmachine = "e2-standard-4"\n')
    loaded = settings.load(write(examples_taken(text)), environment="prod")
    assert loaded.schedules["nightly"].parameters == {"when": "drift", "epochs": 3.0}
    assert loaded.encryption_key and loaded.request("train").machine == "e2-standard-4"


def test_what_prod_shares_with_dev_is_written_once() -> None:
    text = without_examples(first_file.format_file(answers(), ""))
    assert all(text.count(f"\n{key} = ") == 1 for key in ("bucket", "image", "template_repository", "service_account"))


def test_without_a_service_account_none_is_set(write: Write) -> None:
    text = without_examples(first_file.format_file(answers(service_account=""), ""))
    assert settings.load(write(text)).service_account is None


def test_steps_are_taken_over_with_their_comments(write: Write, tmp_path: Path) -> None:
    path = write('region = "us-east1"\n[steps.a]\nmachine = "m" # why\n[labels]\nx = "y"\n[steps.b]\nnodes = 2\n')
    lines = first_file.read_steps([tmp_path / "none.toml", path]).split("\n")
    assert [line for line in lines if line] == ["[steps.a]", 'machine = "m" # why', "[steps.b]", "nodes = 2"]


@pytest.mark.parametrize("broken", ["a = \n", "", "[steps.train]\nmachne = 'x'\n", "steps = 3\n"])
def test_steps_of_a_broken_file_give_way_to_the_next_file(write: Write, tmp_path: Path, broken: str) -> None:
    good = tmp_path / "good.toml"
    good.write_text("[steps.b]\nnodes = 2\n")
    assert first_file.read_steps([write(broken), good]) == "[steps.b]\nnodes = 2\n"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.key)
def test_every_default_is_a_right_answer_and_nonsense_is_none(question: first_file.Question) -> None:
    default = answers()[question.key]
    assert question.validate(default) == default
    with pytest.raises(RequestError, match=question.flag):
        question.validate("No Such Thing!")
    with pytest.raises(RequestError, match="looks like a credential") as refused:
        question.validate("ya29.canary")
    assert "canary" not in str(refused.value)


@pytest.fixture
def gcloud_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_ACTIVE_CONFIG_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations/config_default").write_text("[core]\naccount = me\nproject = from-default\n")
    (tmp_path / "configurations/config_work").write_text("[core]\nproject = from-work\n")
    return tmp_path


def test_the_project_is_that_of_gclouds_active_configuration(
    gcloud_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_file.find_gcloud_project() == "from-default"
    (gcloud_folder / "active_config").write_text("work\n")
    assert first_file.find_gcloud_project() == "from-work"
    monkeypatch.setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", "default")
    assert first_file.find_gcloud_project() == "from-default"
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-variable")
    assert first_file.find_gcloud_project() == "from-variable"


@pytest.mark.parametrize(
    "content", [b"", b"[core]\n", b"no ini", b"[core]\nproject = %(x)s\n", b"\xff\xfe", b"[core]\nproject=N O\n"]
)
def test_a_configuration_without_a_usable_project_offers_none(gcloud_folder: Path, content: bytes) -> None:
    (gcloud_folder / "configurations/config_default").write_bytes(content)
    assert QUESTIONS[0].default({}) is None


def test_answers_are_quoted() -> None:
    text = first_file.format_file(answers(), "")
    for key, value in answers().items():
        assert json.dumps(value) in text, key


@pytest.mark.parametrize("prod_project", ["my-project", "other-project"])
@pytest.mark.parametrize("bucket", ["gs://my-project-pipelines", "gs://shared/team"])
def test_dev_and_prod_have_registries_of_their_own(write: Write, prod_project: str, bucket: str) -> None:
    path = write(first_file.format_file(answers(prod_project=prod_project, bucket=bucket), ""))
    dev, prod = settings.load(path, environment="dev"), settings.load(path, environment="prod")
    assert dev.registry_root != prod.registry_root
    assert dev.registry_sharers == prod.registry_sharers == ()
    assert prod.registry_root == f"{prod.bucket}/registry"  # where that of a project that has one is
