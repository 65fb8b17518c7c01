"""A run on an MLflow server, where the environment names one (docs/observing.md).

While it trains, a run is one run there, however often the training was killed. Its key lies beside the checkpoints, so
an attempt that goes on from them goes on with it; what the server has of a curve is not sent again. All of it happens
in a thread: a server that is slow or away costs curves there, and never the run. The figures of the evaluation and the
decision are added to the same run (`log_evaluation`).
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
from vgp.train import mlflow_server as address
from vgp.train.mlflow_server import Refused, Server, Unreached, now_ms

#: Seconds between tries of a server that does not answer, and for which the end of a run waits for it.
_AGAIN_S, _END_S = 15.0, 10.0
#: Tries once the run has ended, and the pause between them.
_LAST_TRIES, _PAUSE_S = 3, 1.0
_MOST_BYTES = 1 << 12
_CURVES = ("loss", "validation_loss", "learning_rate", "epoch")


class Live:
    """What the server is told of one run; its methods wait for nothing but `close`, and that for seconds."""

    def __init__(self, checkpoints: str, run: int, params: JsonObject, tags: Mapping[str, str]):
        self.file = f"{checkpoints}/mlflow-run{run:03}.txt"
        self.params = {name: str(value) for name, value in params.items()}
        self.tags = {name: value for name, value in tags.items() if value}
        self.told = 0
        self.points: queue.SimpleQueue[list[JsonObject]] = queue.SimpleQueue()
        self.ending: tuple[str, JsonObject, Mapping[str, str]] = ("FAILED", {}, {})
        self.ended = threading.Event()
        self.warned = False
        self.thread = threading.Thread(target=self._tell, name="mlflow", daemon=True)
        self.thread.start()

    def update(self, points: Sequence[JsonObject]) -> None:
        """Takes the learning curve as it is now; those of its points that are new are sent."""
        if len(points) > self.told:
            self.points.put([dict(point) for point in points[self.told :]])
            self.told = len(points)

    def end(self, status: str, figures: JsonObject | None = None, tags: Mapping[str, str] | None = None) -> None:
        """How the run is to be shown once it is closed: FINISHED, FAILED, or SCHEDULED if somebody goes on with it."""
        self.ending = (status, figures or {}, tags or {})

    def close(self) -> None:
        self.ended.set()
        self.thread.join(_END_S)
        if self.thread.is_alive():
            self._warn("its end was not told: the server does not answer")

    # ---- in the thread

    def _tell(self) -> None:
        try:
            chosen = address.address_of(os.environ)
            assert chosen
            last = _LAST_TRIES
            while last and not self._told_all(Server(chosen)):
                last -= self.ended.is_set()
                if self.ended.wait(_AGAIN_S):
                    time.sleep(_PAUSE_S)
        except (UserError, Refused, OSError) as error:
            self._warn(str(error))
        except Exception as error:  # an answer of another program, say
            self._warn(f"{type(error).__name__} ({error})")

    def _told_all(self, server: Server) -> bool:
        """Whether the run was told to its end; False if the server went away, and all of it is to be tried again."""
        try:
            found = self._found(server)
            run, latest = _id(found), _latest(found)
            while True:
                over = self.ended.is_set()
                self._send(server, run, latest)
                if over:
                    self._end(server, run, latest)
                    return True
                self.ended.wait(1.0)
        except Unreached as error:
            self._warn(f"{error}; trying again")
            return False

    def _found(self, server: Server) -> JsonObject:
        experiment = server.experiment()
        found = server.run(experiment, self._key(), self.tags.get("training.job") or "training")
        known = {param["key"] for param in found.get("data", {}).get("params", [])}
        params = {name: value for name, value in self.params.items() if name not in known}
        server.log(_id(found), params=params, tags=self.tags)
        server.update(_id(found), "RUNNING", ended=False)
        return found

    def _key(self) -> str:
        try:
            return storage.read(self.file, most=_MOST_BYTES, links=False).decode().strip()
        except UserError:  # it is not there
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
        except Unreached:
            for points in waiting:
                self.points.put(points)
            raise

    def _end(self, server: Server, run: str, latest: Mapping[str, int]) -> None:
        status, figures, tags = self.ending
        if "final.steps" in latest and figures.get("resumed_from") == figures.get("steps"):
            figures = {}  # it was told when it ended; this launch only wrote the model again
        now, step = now_ms(), int(figures.get("steps", 0))
        metrics = [{"key": f"final.{name}", "value": value, "timestamp": now, "step": step}
                   for name, value in figures.items() if type(value) in (int, float)]  # fmt: skip
        server.log(run, metrics, tags={name: str(value) for name, value in tags.items()})
        server.update(run, status, ended=status != "SCHEDULED")

    def _warn(self, text: str) -> None:
        if not self.warned:
            self.warned = True
            print(f"warning: MLflow is not told of this training: {text}", file=sys.stderr, flush=True)


def start_run(checkpoints: str, run: int, params: JsonObject, tags: Mapping[str, str]) -> Live | None:
    """What tells the server that the environment names; None where it names none."""
    return Live(checkpoints, run, params, tags) if os.environ.get(address.URI) else None


def _id(run: JsonObject) -> str:
    return str(run["info"]["run_id"])


def _latest(run: JsonObject) -> dict[str, int]:
    """The last step of each curve that the server has."""
    return {metric["key"]: int(metric.get("step", 0)) for metric in run.get("data", {}).get("metrics", [])}


def _metrics(point: JsonObject, latest: Mapping[str, int]) -> list[JsonObject]:
    """What a point of the learning curve holds that the server does not have."""
    values = {name: point.get(name) for name in _CURVES} | dict(point.get("metrics") or {})
    named = {re.sub(r"[^\w./ -]", "_", name): value for name, value in values.items() if value is not None}
    time_ms, step = now_ms(), int(point["step"])
    return [{"key": name, "value": value, "timestamp": time_ms, "step": step}
            for name, value in named.items() if step > latest.get(name, 0)]  # fmt: skip


#: Tag that binds a run to the model that it left: a checksum of its card.
MODEL = "training.model"


def model_tag(card: bytes) -> str:
    return hashlib.sha256(card).hexdigest()


def log_evaluation(card: str | Path, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    """Adds to the newest run that left this model; told again, it says the same. A failure is a warning.

    Args:
        card: Path of the model's card.
    """
    if not os.environ.get(address.URI):
        return
    try:
        chosen = address.address_of(os.environ)
        assert chosen
        server = Server(chosen)
        found = server.find(server.experiment(), MODEL, model_tag(Path(card).read_bytes()), newest=True)
        if found is None:
            return _warn("it has no run that left this model")
        _log_figures(server, found, figures, tags)
    except (UserError, Refused, Unreached, OSError) as error:
        _warn(str(error))
    except Exception as error:  # an answer of another program, say
        _warn(f"{type(error).__name__} ({error})")


def _log_figures(server: Server, run: JsonObject, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    known = {metric["key"]: metric["value"] for metric in run.get("data", {}).get("metrics", [])}
    named = {f"test.{name}": float(value) for name, value in figures.items()}
    metrics = [{"key": name, "value": value, "timestamp": now_ms(), "step": 0}
               for name, value in named.items() if known.get(name) != value]  # fmt: skip
    server.log(str(run["info"]["run_id"]), metrics, tags=tags)


def _warn(text: str) -> None:
    print(f"warning: MLflow is not told of this evaluation: {text}", file=sys.stderr, flush=True)
