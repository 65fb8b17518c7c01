"""Logs a training run to an MLflow server, if the environment names one (docs/how-to/follow-a-run.md).

All attempts of a training share one MLflow run: its key lies beside the checkpoints, and points that the server already
has are not sent again. A thread sends them, so a slow or unreachable server never holds up the training.
`log_evaluation` adds the figures of the evaluation and the decision to the MLflow run.
"""

import hashlib
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.train import mlflow_server
from vgp.train.mlflow_server import RequestRefused, Server, ServerUnreachable, now_ms

#: Seconds between attempts to reach the server, and for which `close` waits.
_AGAIN_S, _END_S = 15.0, 10.0
#: Attempts after the run has ended, and the seconds between them.
_LAST_TRIES, _PAUSE_S = 3, 1.0
_MOST_BYTES = 1 << 12
_CURVES = ("loss", "validation_loss", "learning_rate", "epoch")


class RunLogger:
    """A logger of one run. Only `close` waits for the server, for at most 10 s."""

    def __init__(self, checkpoints: str, run: int, params: JsonObject, tags: Mapping[str, str]):
        self.file = f"{checkpoints}/mlflow-run{run:03}.txt"
        self.params = {name: str(value) for name, value in params.items()}
        self.tags = {name: value for name, value in tags.items() if value}
        self.points_queued = 0
        self.points: queue.SimpleQueue[list[JsonObject]] = queue.SimpleQueue()
        self.ending: tuple[str, JsonObject, Mapping[str, str]] = ("FAILED", {}, {})
        self.ended = threading.Event()
        self.warned = False
        self.thread = threading.Thread(target=self._run, name="mlflow", daemon=True)
        self.thread.start()

    def update(self, points: Sequence[JsonObject]) -> None:
        """Queues the new points of the learning curve, given the whole curve."""
        if len(points) > self.points_queued:
            self.points.put([dict(point) for point in points[self.points_queued :]])
            self.points_queued = len(points)

    def end(self, status: str, figures: JsonObject | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Sets the status that `close` logs: FINISHED, FAILED, or SCHEDULED if another attempt will resume the run."""
        self.ending = (status, figures or {}, tags or {})

    def close(self) -> None:
        self.ended.set()
        self.thread.join(_END_S)
        if self.thread.is_alive():
            self._warn("its end was not logged, because the server does not answer")

    # ---- in the thread

    def _run(self) -> None:
        try:
            server_address = mlflow_server.address_of(os.environ)
            assert server_address
            attempts_left = _LAST_TRIES
            while attempts_left and not self._log_until_end(Server(server_address)):
                attempts_left -= self.ended.is_set()
                if self.ended.wait(_AGAIN_S):
                    time.sleep(_PAUSE_S)
        except (UserError, RequestRefused, OSError) as error:
            self._warn(str(error))
        except Exception as error:  # another program may answer at this address
            self._warn(f"{type(error).__name__} ({error})")

    def _log_until_end(self, server: Server) -> bool:
        """Returns whether everything to the end of the run is logged; False if the server became unreachable."""
        try:
            run = self._open_run(server)
            run_id, latest = _read_id(run), _latest(run)
            while True:
                is_over = self.ended.is_set()
                self._send(server, run_id, latest)
                if is_over:
                    self._end(server, run_id, latest)
                    return True
                self.ended.wait(1.0)
        except ServerUnreachable as error:
            self._warn(f"{error}; retrying")
            return False

    def _open_run(self, server: Server) -> JsonObject:
        experiment = server.experiment()
        run = server.run(experiment, self._key(), self.tags.get("training.job") or "training")
        known = {param["key"] for param in run.get("data", {}).get("params", [])}
        params = {name: value for name, value in self.params.items() if name not in known}
        server.log(_read_id(run), params=params, tags=self.tags)
        server.update(_read_id(run), "RUNNING", ended=False)
        return run

    def _key(self) -> str:
        try:
            return storage.read(self.file, most=_MOST_BYTES, links=False).decode().strip()
        except UserError:  # there is no key yet
            key = os.urandom(16).hex()
            storage.overwrite(self.file, key.encode())
            return key

    def _send(self, server: Server, run: str, latest: dict[str, int]) -> None:
        waiting: list[list[JsonObject]] = []
        while not self.points.empty():
            waiting.append(self.points.get())
        try:
            metrics = [m for points in waiting for point in points for m in _metrics(point, latest)]
            server.log(run, metrics)
            latest |= {metric["key"]: metric["step"] for metric in metrics}
        except ServerUnreachable:
            for points in waiting:
                self.points.put(points)
            raise

    def _end(self, server: Server, run: str, latest: Mapping[str, int]) -> None:
        status, figures, tags = self.ending
        if "final.steps" in latest and figures.get("resumed_from") == figures.get("steps"):
            figures = {}  # an earlier attempt logged them; this one only wrote the model again
        now, step = now_ms(), int(figures.get("steps", 0))
        metrics = [{"key": f"final.{name}", "value": value, "timestamp": now, "step": step}
                   for name, value in figures.items() if type(value) in (int, float)]  # fmt: skip
        server.log(run, metrics, tags={name: str(value) for name, value in tags.items()})
        server.update(run, status, ended=status != "SCHEDULED")

    def _warn(self, text: str) -> None:
        if not self.warned:
            self.warned = True
            print(f"warning: this training is not logged to MLflow: {text}", file=sys.stderr, flush=True)


def start_run(checkpoints: str, run: int, params: JsonObject, tags: Mapping[str, str]) -> RunLogger | None:
    """Starts to log a run to the server that the environment names; returns None if it names none."""
    return RunLogger(checkpoints, run, params, tags) if os.environ.get(mlflow_server.URI) else None


def _read_id(run: JsonObject) -> str:
    return str(run["info"]["run_id"])


def _latest(run: JsonObject) -> dict[str, int]:
    """Returns the last step of each curve on the server."""
    return {metric["key"]: int(metric.get("step", 0)) for metric in run.get("data", {}).get("metrics", [])}


def _metrics(point: JsonObject, latest: Mapping[str, int]) -> list[JsonObject]:
    """Returns the metrics of a point of the learning curve that are newer than `latest`."""
    values = {name: point.get(name) for name in _CURVES} | dict(point.get("metrics") or {})
    named = {re.sub(r"[^\w./ -]", "_", name): value for name, value in values.items() if value is not None}
    time_ms, step = now_ms(), int(point["step"])
    return [{"key": name, "value": value, "timestamp": time_ms, "step": step}
            for name, value in named.items() if step > latest.get(name, 0)]  # fmt: skip


#: Tag that links an MLflow run to its model: the checksum of the model's card.
MODEL = "training.model"


def checksum_card(card: bytes) -> str:
    return hashlib.sha256(card).hexdigest()


def log_evaluation(card: str | Path, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    """Adds figures and tags to the newest MLflow run of this model; repeating the call changes nothing.

    A failure is only a warning.

    Args:
        card: Path of the model's card.
    """
    if not os.environ.get(mlflow_server.URI):
        return
    try:
        server_address = mlflow_server.address_of(os.environ)
        assert server_address
        server = Server(server_address)
        run = server.find(server.experiment(), MODEL, checksum_card(Path(card).read_bytes()), newest=True)
        if run is None:
            return _warn("the server has no run of this model")
        _log_figures(server, run, figures, tags)
    except (UserError, RequestRefused, ServerUnreachable, OSError) as error:
        _warn(str(error))
    except Exception as error:  # another program may answer at this address
        _warn(f"{type(error).__name__} ({error})")


def _log_figures(server: Server, run: JsonObject, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    known = {metric["key"]: metric["value"] for metric in run.get("data", {}).get("metrics", [])}
    named = {f"test.{name}": float(value) for name, value in figures.items()}
    metrics = [{"key": name, "value": value, "timestamp": now_ms(), "step": 0}
               for name, value in named.items() if known.get(name) != value]  # fmt: skip
    server.log(str(run["info"]["run_id"]), metrics, tags=tags)


def _warn(text: str) -> None:
    print(f"warning: this evaluation is not logged to MLflow: {text}", file=sys.stderr, flush=True)
