"""The settings as code sees them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from vgp import settings
from vgp.settings import Settings, load
from vgp.settings.settings_model import Notify


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().region = "us-east1"  # type: ignore[misc]


def test_defaults_are_right_by_their_own_rules() -> None:
    assert Settings.model_validate(Settings().model_dump()) == Settings()


def test_made_in_code_every_value_is_a_default() -> None:
    assert str(Settings(region="us-east1").source("region")) == "default"


def test_flags_come_before_variables_the_environment_and_the_top(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write('experiment = "top"\n[environments.dev]\nexperiment = "environment"\n')
    assert settings.load(path).experiment == "environment"
    monkeypatch.setenv("PIPELINES_EXPERIMENT", "variable")
    assert settings.load(path).experiment == "variable"
    assert settings.load(path, overrides={"experiment": "flag"}).experiment == "flag"


Write = Callable[[str], Path]


def test_no_notice_is_sent_by_default() -> None:
    assert Notify() == Notify(email=(), webhook=None) and Notify().warnings() == []


@pytest.mark.parametrize(
    "webhook",
    ["https://example.com/runs", "projects/my-project/secrets/hook", "projects/123/secrets/h_1-2/versions/7",
     "projects/example.com:my-project/secrets/hook/versions/latest"],
)  # fmt: skip
def test_an_address_and_a_name_of_secret_manager_are_taken(webhook: str) -> None:
    assert Notify(webhook=webhook).webhook == webhook
    assert Notify(webhook=webhook).warnings() == []


def test_an_address_that_is_as_good_as_a_password_is_warned_about_and_not_repeated() -> None:
    (warning,) = Notify(webhook="https://hooks.slack.com/services/T0/B0/abc").warnings()
    assert "Secret Manager" in warning and "T0" not in warning


def test_an_environment_has_its_own_and_may_take_the_tops_away(write: Write) -> None:
    path = write(
        '[notify]\nemail = ["a@example.com"]\nwebhook = "https://example.com/x"\n'
        '[environments.dev.notify]\nwebhook = ""\nemail = []\n[environments.prod.notify]\nemail = ["b@example.com"]\n'
    )
    assert load(path, environment="dev").notify == Notify()
    prod = load(path, environment="prod").notify
    assert (prod.email, prod.webhook) == (("b@example.com",), "https://example.com/x")


def test_a_variable_holds_addresses_between_commas(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINES_NOTIFY__EMAIL", "a@example.com, b@example.com,a@example.com")
    monkeypatch.setenv("PIPELINES_NOTIFY__WEBHOOK", "projects/my-project/secrets/hook")
    notify = load(write("")).notify
    assert notify == Notify(email=("a@example.com", "b@example.com"), webhook="projects/my-project/secrets/hook")


@pytest.mark.parametrize(
    ("light", "message"),
    [
        ("r.pkg.dev/p/r/training:v1", "has no digest"),
        (f"r.pkg.dev/p/r/other@sha256:{'0' * 64}", "has another name than image, r.pkg.dev/p/r/training"),
    ],
)
def test_a_light_image_has_the_name_of_the_image_and_a_digest(light: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings(image="r.pkg.dev/p/r/training:v1", light_image=light)


@pytest.mark.parametrize(
    "index", ["http://torch.example/cpu", "https://me:word@torch.example/cpu", "torch.example", "--x"]
)
def test_a_package_index_is_an_https_address_without_a_credential(index: str) -> None:
    with pytest.raises(ValidationError, match="is not the address of a package index"):
        Settings(torch_index=index)
