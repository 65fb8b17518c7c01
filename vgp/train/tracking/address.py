"""Which MLflow server is told, from the variables that MLflow's own clients read.

https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from vgp.base.exits import UserError
from vgp.base.storage import secret

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


def of(environment: Mapping[str, str]) -> Address | None:
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
    token = environment.get(TOKEN, "") or (secret.read(name) if name else "")
    return Address(uri, environment.get(EXPERIMENT) or DEFAULT_EXPERIMENT, token, user)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
