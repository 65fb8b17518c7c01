"""The calls of an MLflow server's REST API that a run needs, and the variables that name a server.

Each call may be repeated. MLflow's own client would bring FastAPI, Uvicorn, GitPython and Databricks' SDK for six
requests of a documented API: https://mlflow.org/docs/latest/rest-api.html and
https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from vgp.base import google_api
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError

URI, EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
TOKEN, USER, PASSWORD = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
#: Ours: where Secret Manager keeps the token, projects/P/secrets/S.
TOKEN_SECRET = "MLFLOW_TRACKING_TOKEN_SECRET"
DEFAULT_EXPERIMENT = "training"


@dataclass(frozen=True)
class Address:
    """An MLflow server, and the experiment that runs are listed under."""

    uri: str
    experiment: str = DEFAULT_EXPERIMENT
    token: str = field(default="", repr=False)
    #: User and password, where there is no token.
    user: tuple[str, str] | None = field(default=None, repr=False)


def address_of(environment: Mapping[str, str]) -> Address | None:
    """The server that the environment names; None if it names none.

    Raises:
        UserError: it is none that is told over the network, or credentials would cross it for everybody to read, or the
            secret cannot be read.
    """
    uri = environment.get(URI, "").rstrip("/")
    if not uri:
        return None
    parts = urlsplit(uri)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
        raise UserError(f"{URI} is no https://HOST address of a server; credentials have variables of their own.")
    name = environment.get(TOKEN_SECRET, "")
    user = (environment[USER], environment.get(PASSWORD, "")) if environment.get(USER) else None
    secretive = bool(name or environment.get(TOKEN) or user)
    if secretive and parts.scheme == "http" and not _is_here(parts.hostname):
        raise UserError(f"{URI} begins with http://, which would send the credentials for everybody to read.")
    token = environment.get(TOKEN, "") or (google_api.read_secret(name) if name else "")
    return Address(uri, environment.get(EXPERIMENT) or DEFAULT_EXPERIMENT, token, user)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


#: Seconds that one request may take.
_REQUEST_S = 10.0
#: What one request may hold: https://mlflow.org/docs/latest/rest-api.html#log-batch
_METRICS, _PARAMS, _TAGS = 1000, 100, 100
_VALUE = 500
#: Tag by which a run is known to be ours.
KEY = "training.key"


class Refused(Exception):
    """The server answered that it will not."""


class Unreached(Exception):
    """The server did not answer, or not now."""


class Server:
    """A connection; used by one thread."""

    def __init__(self, address: Address):
        import requests

        self.address = address
        self.session = requests.Session()
        self.session.trust_env = False  # no .netrc: the environment's variables are all there is
        if address.token:
            self.session.headers["Authorization"] = f"Bearer {address.token}"
        elif address.user:
            self.session.auth = address.user

    def experiment(self) -> str:
        """Its id; it is made if it is not there."""
        name = self.address.experiment
        for _ in range(2):
            answer = self._call(
                "GET", "experiments/get-by-name", {"experiment_name": name}, missing="RESOURCE_DOES_NOT_EXIST"
            )
            if answer is not None:
                return str(answer["experiment"]["experiment_id"])
            self._call("POST", "experiments/create", {"name": name}, missing="RESOURCE_ALREADY_EXISTS")
        raise Refused(f"the experiment {name} can be neither found nor made; was it deleted?")

    def find(self, experiment: str, tag: str, value: str, *, newest: bool = False) -> JsonObject | None:
        """The oldest run with this tag, or the newest; None if there is none."""
        quoted = value.replace("'", "")
        query = {
            "experiment_ids": [experiment], "filter": f"tags.`{tag}` = '{quoted}'", "max_results": 1,
            "order_by": [f"attributes.start_time {'DESC' if newest else 'ASC'}"],
        }  # fmt: skip
        runs = (self._call("POST", "runs/search", query) or {}).get("runs") or []
        return dict(runs[0]) if runs else None

    def run(self, experiment: str, key: str, name: str) -> JsonObject:
        """The run of this key, made if it is not there. Who lost the answer asks again, and finds it."""
        found = self.find(experiment, KEY, key)
        if found is None:
            made = {
                "experiment_id": experiment, "run_name": name, "start_time": now_ms(),
                "tags": [{"key": KEY, "value": key}, {"key": "mlflow.runName", "value": name}],
            }  # fmt: skip
            found = dict((self._call("POST", "runs/create", made) or {})["run"])
        return found

    def log(
        self, run: str, metrics: Sequence[JsonObject] = (), params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Logs metrics with their key, value, timestamp and step: the same once more changes nothing."""
        for part in _parts(metrics, _METRICS):
            self._call("POST", "runs/log-batch", {"run_id": run, "metrics": part})
        for kind, values, most in (("params", params, _PARAMS), ("tags", tags, _TAGS)):
            pairs = [{"key": key, "value": value[:_VALUE]} for key, value in (values or {}).items()]
            for part in _parts(pairs, most):
                self._call("POST", "runs/log-batch", {"run_id": run, kind: part})

    def update(self, run: str, status: str, *, ended: bool) -> None:
        change = {"run_id": run, "status": status} | ({"end_time": now_ms()} if ended else {})
        self._call("POST", "runs/update", change)

    def _call(self, method: str, path: str, values: JsonObject, missing: str = "") -> JsonObject | None:
        """The answer; None where it is the error `missing`.

        Raises:
            Refused, Unreached: without the address, which may be private.
        """
        import requests

        sent = {"params": values} if method == "GET" else {"json": values}
        try:
            answer = self.session.request(
                method, f"{self.address.uri}/api/2.0/mlflow/{path}", timeout=_REQUEST_S, allow_redirects=False, **sent
            )
            body = answer.json() if answer.content else {}
        except (requests.RequestException, ValueError) as error:
            raise Unreached(f"{path}: {type(error).__name__}") from None
        if answer.status_code == 200 and isinstance(body, dict):
            return body
        code = body.get("error_code", "") if isinstance(body, dict) else ""
        if missing and code == missing:
            return None
        words = f"{path}: answered {answer.status_code} {code}".rstrip()
        if answer.status_code >= 500 or answer.status_code in (408, 425, 429):
            raise Unreached(words)
        raise Refused(words)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _parts(items: Sequence[JsonObject], most: int) -> Iterator[list[JsonObject]]:
    for start in range(0, len(items), most):
        yield list(items[start : start + most])
