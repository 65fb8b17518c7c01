"""The MLflow server that is told of trainings, as pipelines.toml declares it.

[mlflow]
tracking_uri = "https://mlflow.example.com"
experiment = "delays"
token = "projects/my-project/secrets/mlflow-token"
"""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, model_validator

from vgp.base import webhook
from vgp.settings.rules import optional


def tracking_uri(value: str) -> str:
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or not value.isprintable() or " " in value:
        raise ValueError("no address of a server. Write https://HOST, or http://HOST:PORT where no token is needed.")
    if parts.username or parts.password:
        raise ValueError("the address must not hold a user or password. Keep a token in Secret Manager: mlflow.token.")
    return value.rstrip("/")


def experiment(value: str) -> str:
    if not value.isprintable() or len(value) > 250:
        raise ValueError("no experiment's name: at most 250 characters that can be printed.")
    return value


def token(value: str) -> str:
    if not webhook.is_secret_name(value):
        raise ValueError(
            "no secret's name, and a token must not stand here. Write projects/PROJECT/secrets/NAME, with /versions/N "
            "or without."
        )
    return value


TrackingUri = Annotated[str | None, *optional(tracking_uri)]
Experiment = Annotated[str | None, *optional(experiment)]
Token = Annotated[str | None, *optional(token)]


class Mlflow(BaseModel):
    """Which server is told; by default none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: https://HOST, or http://HOST:PORT where no token is needed.
    tracking_uri: TrackingUri = None
    #: The experiment that runs are listed under.
    experiment: Experiment = None
    #: projects/PROJECT/secrets/NAME, with /versions/N or without.
    token: Token = None

    @model_validator(mode="after")
    def _fits(self) -> "Mlflow":
        if not self.tracking_uri and (self.token or self.experiment):
            raise ValueError("without tracking_uri nothing is told. Add it, or take the others away.")
        if self.token and (self.tracking_uri or "").startswith("http://"):
            raise ValueError("http:// would send the token for everybody to read. Write https://HOST.")
        return self

    def environment(self) -> dict[str, str]:
        """What the steps that tell it find: vgp/train/tracking/server.py, and MLflow's own clients."""
        values = {
            "MLFLOW_TRACKING_URI": self.tracking_uri, "MLFLOW_EXPERIMENT_NAME": self.experiment,
            "MLFLOW_TRACKING_TOKEN_SECRET": self.token,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value}
