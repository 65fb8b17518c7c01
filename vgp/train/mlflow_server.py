"""A client for an MLflow server's REST API, and the environment variables that name a server.

Every call is safe to repeat. MLflow's own client would bring FastAPI, Uvicorn, GitPython and Databricks' SDK for six
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
#: A variable of this library, not of MLflow: the secret in Secret Manager that holds the token, projects/P/secrets/S.
TOKEN_SECRET = "MLFLOW_TRACKING_TOKEN_SECRET"
DEFAULT_EXPERIMENT = "training"


@dataclass(frozen=True)
class Address:
    """An MLflow server, its credentials, and the experiment of the runs."""

    uri: str
    experiment: str = DEFAULT_EXPERIMENT
    token: str = field(default="", repr=False)
    #: User and password, if there is no token.
    user: tuple[str, str] | None = field(default=None, repr=False)


def address_of(environment: Mapping[str, str]) -> Address | None:
    """Returns the server that the environment names; None if it names none.

    Raises:
        UserError: the address is not http(s), credentials would cross the network in plain text, or the secret cannot
            be read.
    """
    uri = environment.get(URI, "").rstrip("/")
    if not uri:
        return None
    parts = urlsplit(uri)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
        raise UserError(f"{URI} must be an https://HOST address without credentials; set {TOKEN} or {USER} for those.")
    name = environment.get(TOKEN_SECRET, "")
    user = (environment[USER], environment.get(PASSWORD, "")) if environment.get(USER) else None
    has_credentials = bool(name or environment.get(TOKEN) or user)
    if has_credentials and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise UserError(f"{URI} begins with http://, which would send the credentials in plain text. Use https://.")
    token = environment.get(TOKEN, "") or (google_api.read_secret(name) if name else "")
    return Address(uri, environment.get(EXPERIMENT) or DEFAULT_EXPERIMENT, token, user)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


#: Timeout of a request in seconds.
_REQUEST_S = 10.0
#: Limits of one request: https://mlflow.org/docs/latest/rest-api.html#log-batch
_METRICS, _PARAMS, _TAGS = 1000, 100, 100
_VALUE = 500
#: Tag that holds the key of a run of this library.
KEY = "training.key"


class RequestRefused(Exception):
    """The server refused the request (4xx)."""


class ServerUnreachable(Exception):
    """The server did not answer, or answered that a retry may succeed (5xx, 408, 425, 429)."""


class Server:
    """A connection to an MLflow server, for use by one thread."""

    def __init__(self, address: Address):
        import requests

        self.address = address
        self.session = requests.Session()
        self.session.trust_env = False  # only the environment's variables count, not .netrc
        if address.token:
            self.session.headers["Authorization"] = f"Bearer {address.token}"
        elif address.user:
            self.session.auth = address.user

    def experiment(self) -> str:
        """Returns the id of the experiment; creates it if it is missing."""
        name = self.address.experiment
        for _ in range(2):
            answer = self._call(
                "GET", "experiments/get-by-name", {"experiment_name": name}, missing="RESOURCE_DOES_NOT_EXIST"
            )
            if answer is not None:
                return str(answer["experiment"]["experiment_id"])
            self._call("POST", "experiments/create", {"name": name}, missing="RESOURCE_ALREADY_EXISTS")
        raise RequestRefused(f"the experiment {name} can be neither found nor created; was it deleted?")

    def find(self, experiment: str, tag: str, value: str, *, newest: bool = False) -> JsonObject | None:
        """Returns the oldest (or newest) run with this tag; None if there is none."""
        quoted = value.replace("'", "")
        query = {
            "experiment_ids": [experiment], "filter": f"tags.`{tag}` = '{quoted}'", "max_results": 1,
            "order_by": [f"attributes.start_time {'DESC' if newest else 'ASC'}"],
        }  # fmt: skip
        runs = (self._call("POST", "runs/search", query) or {}).get("runs") or []
        return dict(runs[0]) if runs else None

    def run(self, experiment: str, key: str, name: str) -> JsonObject:
        """Returns the run with this key; creates it if it is missing, so that a retry after a lost answer finds it."""
        run = self.find(experiment, KEY, key)
        if run is None:
            fields = {
                "experiment_id": experiment, "run_name": name, "start_time": now_ms(),
                "tags": [{"key": KEY, "value": key}, {"key": "mlflow.runName", "value": name}],
            }  # fmt: skip
            run = dict((self._call("POST", "runs/create", fields) or {})["run"])
        return run

    def log(
        self, run: str, metrics: Sequence[JsonObject] = (), params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Logs metrics (key, value, timestamp, step), parameters and tags; logging them again changes nothing."""
        for part in _split_batches(metrics, _METRICS):
            self._call("POST", "runs/log-batch", {"run_id": run, "metrics": part})
        for kind, values, most in (("params", params, _PARAMS), ("tags", tags, _TAGS)):
            pairs = [{"key": key, "value": value[:_VALUE]} for key, value in (values or {}).items()]
            for part in _split_batches(pairs, most):
                self._call("POST", "runs/log-batch", {"run_id": run, kind: part})

    def update(self, run: str, status: str, *, ended: bool) -> None:
        change = {"run_id": run, "status": status} | ({"end_time": now_ms()} if ended else {})
        self._call("POST", "runs/update", change)

    def _call(self, method: str, path: str, values: JsonObject, missing: str = "") -> JsonObject | None:
        """Returns the answer; None if it is the error code `missing`.

        Raises:
            Refused, Unreached: as described there; the message leaves out the address, which may be private.
        """
        import requests

        payload = {"params": values} if method == "GET" else {"json": values}
        try:
            answer = self.session.request(
                method,
                f"{self.address.uri}/api/2.0/mlflow/{path}",
                timeout=_REQUEST_S,
                allow_redirects=False,
                **payload,
            )
            body = answer.json() if answer.content else {}
        except (requests.RequestException, ValueError) as error:
            raise ServerUnreachable(f"{path}: {type(error).__name__}") from None
        if answer.status_code == 200 and isinstance(body, dict):
            return body
        code = body.get("error_code", "") if isinstance(body, dict) else ""
        if missing and code == missing:
            return None
        reason = f"{path}: answered {answer.status_code} {code}".rstrip()
        if answer.status_code >= 500 or answer.status_code in (408, 425, 429):
            raise ServerUnreachable(reason)
        raise RequestRefused(reason)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _split_batches(items: Sequence[JsonObject], most: int) -> Iterator[list[JsonObject]]:
    for start in range(0, len(items), most):
        yield list(items[start : start + most])
