"""The model of the settings: typed, frozen and checked. For example:

[notify]
email = ["ml-team@example.com"]
webhook = "projects/my-project/secrets/runs-webhook"

[mlflow]
tracking_uri = "https://mlflow.example.com"
experiment = "delays"
token = "projects/my-project/secrets/mlflow-token"
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from vgp.base import webhook as sending
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.base.text.google_names import pattern_check, split_uri, untagged_image
from vgp.machines.catalog.catalog import DEFAULT_REGION
from vgp.machines.placement.step_request import Request
from vgp.protocol import environment as variables
from vgp.settings import value_rules
from vgp.settings.layers import Merged, Source
from vgp.settings.repository import MISSING, Repository
from vgp.settings.schedule_settings import Name, Schedule
from vgp.settings.value_rules import make_optional

#: "at most three": https://cloud.google.com/vertex-ai/docs/pipelines/email-notifications
MAX_EMAILS = 3
check_email = pattern_check(
    r"(?ai:[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63})",
    "'{value}' is not an e-mail address. Write NAME@HOST.",
)


def check_emails(value: tuple[str, ...]) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(value))
    if len(unique) > MAX_EMAILS:
        raise ValueError(f"{len(unique)} addresses; Vertex AI takes at most {MAX_EMAILS}. Use a mailing list.")
    return unique


def check_webhook(value: str) -> str:
    """Returns the checked address, which the spec holds in plain text, or the name of a secret in Secret Manager."""
    if value.startswith("projects/"):
        if not sending.is_secret_name(value):
            raise ValueError(
                f"'{value}' is not a secret. Write projects/PROJECT/secrets/NAME, with /versions/N or without."
            )
        return value
    try:
        return sending.check_url(value)
    except sending.Refused as error:
        raise ValueError(f"the address {error}") from None


def _split_list(value: object) -> object:
    """Splits a text with comma-separated addresses, as variables hold them."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Email = Annotated[str, AfterValidator(check_email)]
Emails = Annotated[tuple[Email, ...], AfterValidator(check_emails), BeforeValidator(_split_list)]
Webhook = Annotated[str | None, *make_optional(check_webhook)]


class Notify(BaseModel):
    """Recipients of the summary of a run; by default none. Every run writes its summary in any case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: At most three addresses, to which Vertex AI writes. In a variable: separated by commas.
    email: Emails = ()
    #: `https://HOST/PATH`, or the secret that holds it: `projects/PROJECT/secrets/NAME`, optionally with `/versions/N`.
    webhook: Webhook = None

    def warnings(self) -> list[str]:
        """Returns a warning if the webhook probably contains a secret, because specs and the repository hold it in
        plain text."""
        if not self.webhook or sending.is_secret_name(self.webhook) or not sending.may_hold_a_secret(self.webhook):
            return []
        fix = 'Keep it in Secret Manager: webhook = "projects/PROJECT/secrets/NAME"; docs/how-to/alerts.md.'
        return [f"warning: notify.webhook: anyone with this address can post there, and every spec contains it. {fix}"]


def check_tracking_uri(value: str) -> str:
    parts = value_rules.split_address(value)
    if not parts or parts.scheme not in ("https", "http") or not value.isprintable() or " " in value:
        raise ValueError(
            "this is not the address of a server. Write https://HOST, or http://HOST:PORT if it needs no token."
        )
    if parts.username or parts.password:
        raise ValueError("the address must not hold a user or password. Keep a token in Secret Manager: mlflow.token.")
    return value.rstrip("/")


def check_mlflow_experiment(value: str) -> str:
    if not value.isprintable() or len(value) > 250:
        raise ValueError("an experiment's name has at most 250 printable characters.")
    return value


def check_token(value: str) -> str:
    if not sending.is_secret_name(value):
        raise ValueError(
            "this is not the name of a secret; never write the token itself. Write projects/PROJECT/secrets/NAME, with "
            "/versions/N or without."
        )
    return value


TrackingUri = Annotated[str | None, *make_optional(check_tracking_uri)]
Experiment = Annotated[str | None, *make_optional(check_mlflow_experiment)]
Token = Annotated[str | None, *make_optional(check_token)]


class Mlflow(BaseModel):
    """The MLflow server of the runs; by default none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: `https://HOST`, or `http://HOST:PORT` for a server that needs no token.
    tracking_uri: TrackingUri = None
    #: Experiment of MLflow for the runs. Default: `training`.
    experiment: Experiment = None
    #: Secret that holds the token: `projects/PROJECT/secrets/NAME`, optionally with `/versions/N`.
    token: Token = None

    @model_validator(mode="after")
    def _fits(self) -> "Mlflow":
        if not self.tracking_uri and (self.token or self.experiment):
            raise ValueError("tracking_uri is missing. Add it, or remove the table.")
        if self.token and (self.tracking_uri or "").startswith("http://"):
            raise ValueError("http:// would send the token unencrypted. Write https://HOST.")
        return self

    def environment(self) -> dict[str, str]:
        """Returns the environment variables that vgp/train/mlflow_server.py and MLflow's own clients read."""
        values = {
            "MLFLOW_TRACKING_URI": self.tracking_uri, "MLFLOW_EXPERIMENT_NAME": self.experiment,
            "MLFLOW_TRACKING_TOKEN_SECRET": self.token,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value}


class Settings(BaseModel):
    """The settings of a repository. Unknown keys are errors; an empty text counts as no value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Environment in effect without `--env` and PIPELINES_ENV. Only at the top of the file.
    environment: str | None = None
    #: Folder of the workflows, relative to this file. Only at the top of the file.
    workflows: value_rules.Workflows = "pipelines"
    #: Id of the Google Cloud project, not its number.
    project: value_rules.Project = None
    #: Region of the jobs. GPUs differ by region: `vgp machines --region europe-west4`.
    region: value_rules.Region = DEFAULT_REGION
    #: `gs://BUCKET` or `gs://BUCKET/FOLDER`. Runs write below it, into `runs/`.
    bucket: value_rules.Bucket = None
    #: `gs://BUCKET/FOLDER`, the root of the model registry. Default: `registry/` in `bucket`. Environments that share a
    #: registry share one champion, so give each its own.
    registry: value_rules.Bucket = None
    #: Image of every step without its own image: by digest (`...@sha256:...`) or version tag. `latest` is refused,
    #: because Vertex AI caches steps by the image's name.
    image: value_rules.Image = "us-central1-docker.pkg.dev/my-project/training/training:0.1.0"
    #: Image of steps without a GPU, by digest and with the name of `image`; `vgp image build` writes both. Default:
    #: `image`.
    light_image: value_rules.LightImage = None
    #: Dockerfile of `vgp image build`, relative to this file. Default: `training/Dockerfile`, else `Dockerfile`.
    dockerfile: value_rules.Dockerfile = None
    #: `https://HOST/PATH`, the package index with PyTorch's builds for CPUs, which https://pytorch.org/get-started/locally
    #: shows for Linux, Pip and CPU. Default: `vgp image build` builds no light image.
    torch_index: value_rules.TorchIndex = None
    #: Folders and files of your own code that `--code` sends with a run, relative to this file.
    code: tuple[value_rules.Workflows, ...] = ("training",)
    #: Whether `--code` may run code that is not in the image. Default: runs may, but not in an environment whose name
    #: begins with `prod`, and not schedules.
    allow_code: bool | None = None
    #: E-mail of the account that runs the steps. Default: Vertex AI's, which usually has more rights than it needs.
    service_account: value_rules.ServiceAccount = None
    #: E-mail of the account that builds the image. Default: Cloud Build's, which usually has more rights than it needs.
    build_service_account: value_rules.ServiceAccount = None
    #: Id of a persistent resource in `region`, whose machines the runs of `submit` and `rerun` use. A training
    #: job waits for room there; any other step waits 10 minutes and then runs on its own machine. Schedules ignore it.
    persistent_resource: value_rules.PersistentResource = None
    #: Whether Vertex AI validates the components of a pipeline before it creates a run. Google does not document which
    #: errors it finds.
    preflight_validations: bool = False
    #: `projects/NUMBER/global/networks/NAME`, with the project's number: the network that jobs are peered with.
    network: value_rules.Network = None
    #: `projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY`, in `region`: the key of the run, its jobs and
    #: its models on Vertex AI. Default: Google's own keys.
    encryption_key: value_rules.EncryptionKey = None
    #: `https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY`, where `vgp upload` puts templates.
    template_repository: value_rules.TemplateRepository = None
    #: Vertex AI experiment in which the console lists the runs.
    experiment: value_rules.Experiment = None
    #: Labels of every run, to find runs and to split the bill: lower-case letters, digits, `_` and `-`.
    labels: value_rules.Labels = {}
    #: `slow`: after a failure, steps that do not need the failed one still run. `fast`: no further step starts.
    failure_policy: Literal["fast", "slow"] = "slow"
    #: Whether steps may reuse results of earlier runs with equal inputs. Default: only pinned steps do.
    #: `true` includes every step of `vgp submit`, even if data behind an unchanged name has changed.
    caching: bool | None = None
    #: Recipients of a message when a run ends.
    notify: Notify = Notify()
    #: MLflow server that receives parameters and metrics of trainings.
    mlflow: Mlflow = Mlflow()
    #: Addresses of APIs that replace Google's, for private access and tests. The file may name only Google's hosts and
    #: this machine; set other hosts by variable, such as PIPELINES_ENDPOINTS__AIPLATFORM.
    endpoints: value_rules.Endpoints = {}
    #: Machine of each step, by the step's name.
    steps: dict[str, Request] = {}
    #: Recurring runs, by name.
    schedules: dict[Name, Schedule] = {}

    _merged: Merged = PrivateAttr(default_factory=Merged)
    _repository: Repository | None = PrivateAttr(default=None)
    #: URI of the archive of code that the steps import; "" = the code in the image.
    _code_uri: str = PrivateAttr(default="")
    #: The root of the registry of each environment of the file; "" where it has none.
    _registries: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("light_image")
    @classmethod
    def _built_with_image(cls, value: str | None, info: ValidationInfo) -> str | None:
        image = info.data.get("image")
        if value and image and untagged_image(value) != untagged_image(image):
            raise ValueError(
                f"'{value}' has another name than image, {untagged_image(image)}: both come from one Dockerfile. "
                "Build them together: vgp image build; or remove light_image."
            )
        return value

    @field_validator("registry")
    @classmethod
    def _not_among_runs(cls, value: str | None, info: ValidationInfo) -> str | None:
        runs = f"{info.data.get('bucket') or ''}/runs"
        if value and f"{value}/".startswith(f"{runs}/"):
            raise ValueError(f"'{value}' is below {runs}/, where vgp clean deletes old runs. Write another folder.")
        if value and not split_uri(value)[1]:
            raise ValueError(f"'{value}' is a bucket. Write a folder of it: {value}/registry.")
        return value

    @field_validator("encryption_key")
    @classmethod
    def _key_in_region(cls, value: str | None, info: ValidationInfo) -> str | None:
        region = info.data.get("region")
        if value and region and value_rules.read_key_location(value) != region:
            raise ValueError(
                f"the key is in {value_rules.read_key_location(value)}, the jobs run in {region}. "
                f"Vertex AI needs a key in the region of the jobs: name a key in {region}, or change region."
            )
        return value

    def request(self, step: str) -> Request:
        request = self.steps.get(step, Request())
        if not self._code_uri:
            return request
        return request.model_copy(update={"env": {**request.env, variables.CODE: self._code_uri}})

    def step_image(self, has_gpu: bool) -> str:
        """Returns the image of a step that names none: without a GPU the light image, if there is one."""
        return self.image if has_gpu else self.light_image or self.image

    @property
    def code_uri(self) -> str:
        """Returns the URI of the archive that the steps import; "" = the code in the image."""
        return self._code_uri

    def with_code(self, uri: str) -> "Settings":
        """Returns a copy whose steps import the archive at `uri` in place of the project's code in their image."""
        copied = self.model_copy()
        copied._code_uri = uri
        return copied

    @property
    def registry_root(self) -> str:
        """Returns the root of the model registry for runs on Vertex AI, or "" without a bucket."""
        return self.registry or (f"{self.bucket}/registry" if self.bucket else "")

    @property
    def registries(self) -> dict[str, str]:
        """Returns the registry roots of the other environments of the file."""
        return {name: root for name, root in self._registries.items() if name != self.environment}

    @property
    def registry_sharers(self) -> tuple[str, ...]:
        """Returns the other environments that share this registry."""
        root = self.registry_root
        return tuple(name for name, other in self.registries.items() if root and other == root)

    def registry_warnings(self) -> list[str]:
        """Returns a warning if another environment shares this registry."""
        if not (others := self.registry_sharers):
            return []
        here = self.environment or "runs without an environment"
        danger = "a model that a run of one environment promotes becomes the champion of both"
        return [
            f"warning: registry: {here} and {join_words(others, 'and')} share {self.registry_root}: {danger}. "
            + self.registry_fix
        ]

    @property
    def registry_fix(self) -> str:
        """Returns the instruction that gives one environment its own registry; the others keep the shared one."""
        others = self.registry_sharers
        names = [*([self.environment] if self.environment else []), *others]
        leaves = next((name for name in names if not name.startswith("prod")), names[0])
        own = f"{self.registry_root.rpartition('/')[0]}/registry-{leaves}"
        return (
            f"To give {leaves} a registry of its own, which is empty at first, write into [environments.{leaves}]: "
            f'registry = "{own}".'
        )

    def warnings(self) -> list[str]:
        """Returns warnings on a webhook that readers of the spec can use, and on a shared registry."""
        return [*self.notify.warnings(), *self.registry_warnings()]

    @property
    def environments(self) -> tuple[str, ...]:
        """Returns the names of the environments that the file declares."""
        return self._merged.environments

    @property
    def file(self) -> Path | None:
        return self._merged.path

    @property
    def repository(self) -> Repository:
        """Returns the repository of the settings file.

        Raises:
            RequestError: the settings come from no file.
        """
        if self._repository is None:
            raise RequestError(MISSING)
        return self._repository

    def source(self, key: str) -> Source:
        """Returns the source of the effective value of `key`, such as region or steps.train.machine."""
        return self._merged.source(tuple(key.split(".")))
