"""An MLflow server has each run once, through kills and faults, and no fault of the server reaches the training."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.mlflow_double import MlflowServer

from vgp.base.exits import UserError
from vgp.train import mlflow_run
from vgp.train import mlflow_server as address
from vgp.train.mlflow_run import RunLogger

TAGS = {"training.job": "run-1/train", "image": ""}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowServer]:
    server = MlflowServer()
    for name in (address.TOKEN, address.USER, address.PASSWORD, address.TOKEN_SECRET):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(address.URI, server.url + "/")
    monkeypatch.setenv(address.EXPERIMENT, "nights")
    monkeypatch.setattr(mlflow_run, "_AGAIN_S", 0.02)
    monkeypatch.setattr(mlflow_run, "_PAUSE_S", 0.02)
    yield server
    server.close()


def point(step: int, validation: float | None = None, **metrics: float) -> dict[str, Any]:
    return {"step": step, "epoch": step / 10, "loss": 1 / step, "learning_rate": 0.1, "validation_loss": validation,
            "metrics": metrics}  # fmt: skip


CURVE = [point(step, 0.5 if step % 2 == 0 else None, **({"f1 (macro)": 0.7} if step % 2 == 0 else {}))
         for step in range(1, 9)]  # fmt: skip


def log_run(folder: Path, curve: list[dict[str, Any]], status: str = "FINISHED", **figures: Any) -> RunLogger:
    run = mlflow_run.start_run(str(folder), 0, {"epochs": 3, "seed": 0}, TAGS)
    assert run
    for last in range(1, len(curve) + 1):
        run.update(curve[:last])
    if status:
        run.end(status, figures, {mlflow_run.MODEL: "abc"})
    run.close()
    return run


def test_a_run_is_told_with_its_settings_curves_and_end(server: MlflowServer, tmp_path: Path) -> None:
    log_run(tmp_path, CURVE, steps=8, resumed_from=0, seconds=2.5, device="cpu")
    (run,) = server.runs
    assert server.experiments == {"nights": "1"} and run["status"] == "FINISHED"
    assert run["params"] == {"epochs": "3", "seed": "0"}
    assert (
        run["tags"].items() >= {"training.job": "run-1/train", mlflow_run.MODEL: "abc"}.items()
        and "image" not in run["tags"]
    )
    assert server.steps("loss") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert server.steps("validation_loss") == server.steps("f1 _macro_") == [2, 4, 6, 8]
    assert {m["key"]: m["value"] for m in run["metrics"] if m["key"].startswith("final.")} == {
        "final.steps": 8, "final.resumed_from": 0, "final.seconds": 2.5
    }  # fmt: skip


def test_a_run_that_is_gone_on_with_is_the_same_and_no_step_is_told_twice_or_lost(
    server: MlflowServer, tmp_path: Path
) -> None:
    """It was killed after step 5, and goes on from a checkpoint of step 3: steps 4 and 5 come again, the same."""
    log_run(tmp_path, CURVE[:5], status="")
    assert server.runs[0]["status"] == "FAILED"
    server.runs[0]["metrics"] = [m for m in server.runs[0]["metrics"] if m["step"] < 5]  # the last was on its way
    log_run(tmp_path, CURVE[:6], status="SCHEDULED")
    assert server.runs[0]["status"] == "SCHEDULED"
    log_run(tmp_path, CURVE, steps=8, resumed_from=6, seconds=2.5)
    log_run(tmp_path, CURVE, steps=8, resumed_from=8, seconds=0.0)  # only the model was written anew
    assert len(server.runs) == 1 and server.steps("loss") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [m["value"] for m in server.runs[0]["metrics"] if m["key"] == "final.seconds"] == [2.5]


def test_what_was_started_anew_is_another_run(server: MlflowServer, tmp_path: Path) -> None:
    for name, curve in (("a", CURVE), ("b", CURVE[:2])):
        (tmp_path / name).mkdir()
        log_run(tmp_path / name, curve)
    assert [len(server.steps("loss", n)) for n in range(2)] == [8, 2]


@pytest.mark.parametrize("fault", [503, 429, "lost"])
@pytest.mark.parametrize("at", range(0, 12, 2))
def test_a_fault_at_any_request_loses_and_doubles_nothing(
    server: MlflowServer, tmp_path: Path, fault: int | str, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [*[0] * at, fault]
    log_run(tmp_path, CURVE, steps=8, resumed_from=0)
    assert server.runs[0]["status"] == "FINISHED"
    assert len(server.runs) == 1 and server.steps("loss") == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_server_that_is_away_or_says_no_is_one_warning_and_soon_over(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [403] * 100
    log_run(tmp_path, CURVE)
    server.close()
    began = time.monotonic()
    log_run(tmp_path, CURVE)
    mlflow_run.log_evaluation(Path(__file__), {"loss": 0.5}, {})
    assert time.monotonic() - began < 100
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("warning: ") and "MLflow" in line for line in lines)
    assert "experiments/get-by-name: answered 403" in lines[0] and "get-by-name: Connection" in lines[1]
    assert "evaluation" in lines[2]


def test_an_evaluation_stands_beside_the_training_of_its_model_and_once(
    server: MlflowServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "model.json"
    card.write_text("{}")
    mlflow_run.log_evaluation(card, {"auc": 0.7}, {"decision": "promote"})
    assert "no run of this model" in capsys.readouterr().err
    log_run(tmp_path, CURVE)
    server.runs[0]["tags"][mlflow_run.MODEL] = mlflow_run.checksum_card(b"{}")
    for _ in range(2):
        mlflow_run.log_evaluation(card, {"auc": 0.7}, {"decision": "promote", "report": "gs://b/report.html"})
    assert [m["value"] for m in server.runs[0]["metrics"] if m["key"] == "test.auc"] == [0.7]
    assert server.runs[0]["tags"]["report"] == "gs://b/report.html"


def test_credentials_are_sent_as_mlflow_sends_them(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(address.USER, "ann")
    monkeypatch.setenv(address.PASSWORD, "pass")
    log_run(tmp_path, [])
    assert server.requests[-1][1]["Authorization"] == "Basic YW5uOnBhc3M="
    monkeypatch.setenv(address.TOKEN, "t0ken")
    log_run(tmp_path, [])
    assert server.requests[-1][1]["Authorization"] == "Bearer t0ken"
    assert "t0ken" not in repr(address.address_of({address.URI: server.url, address.TOKEN: "t0ken"}))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({address.URI: "sqlite:///mlflow.db"}, "must be an https://HOST address"),
        ({address.URI: "https://ann:pass@mlflow.example.com"}, "must be an https://HOST address"),
        ({address.URI: "http://mlflow.example.com", address.TOKEN: "t"}, "would send the credentials"),
        ({address.URI: "http://10.0.0.1:5000", address.TOKEN_SECRET: "projects/p/secrets/s"}, "would send the"),
    ],
)
def test_an_address_that_is_none_or_would_betray_credentials_is_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        address.address_of(environment)
    assert "pass" not in str(caught.value)
    assert address.address_of({}) is None and mlflow_run.start_run("", 0, {}, {}) is None
