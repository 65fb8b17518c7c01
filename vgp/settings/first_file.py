"""The first pipelines.toml: the questions of `vgp init`, gcloud's project, and the text of the file.

Folders of gcloud's configuration: https://cloud.google.com/sdk/docs/configurations
"""

import configparser
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vgp.base.documents import toml_text
from vgp.base.errors import RequestError
from vgp.base.text import google_names
from vgp.base.text.google_names import check_image
from vgp.base.text.printable import is_secret
from vgp.settings import value_rules
from vgp.settings.settings_model import Settings
from vgp.settings.settings_text import read

Answers = dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question of `vgp init`; its flag is `--` and the key with `-`."""

    key: str
    text: str
    rule: Callable[[str], str]
    #: Computes the default from the answers so far; None: no default.
    default: Callable[[Answers], str | None]

    @property
    def flag(self) -> str:
        return f"--{self.key.replace('_', '-')}"

    def validate(self, answer: str) -> str:
        """Returns the answer in canonical form; raises RequestError if it is invalid."""
        if is_secret(answer):
            raise RequestError(f"{self.flag}: looks like a credential.")
        try:
            return self.rule(answer.strip())
        except ValueError as error:
            raise RequestError(f"{self.flag}: {error}") from None


def _find_project(_: Answers) -> str | None:
    project = find_gcloud_project()
    try:
        return google_names.check_project(project) if project else None
    except ValueError:
        return None


def _check_account(value: str) -> str:
    return google_names.check_service_account(value) if value else value


def _name_account(name: str, project: str) -> str:
    return f"{name}@{'.'.join(reversed(project.split(':')))}.iam.gserviceaccount.com"


#: The defaults are the names of the resources that infra/ creates.
QUESTIONS = (
    Question("project", "Google Cloud project (its id)", google_names.check_project, _find_project),
    Question(
        "prod_project", "Project of the environment prod", google_names.check_project,
        lambda answers: answers["project"],
    ),
    Question(
        "region", "Region (its GPUs: vgp machines --region ...)", value_rules.check_region,
        lambda _: Settings().region,
    ),
    Question(
        "bucket", "Bucket of the runs", value_rules.check_bucket,
        lambda answers: f"gs://{_drop_domain(answers['project'])}-pipelines",
    ),
    # example.com:my-project is example.com/my-project: https://cloud.google.com/artifact-registry/docs/docker/names
    Question(
        "image", "Image of the steps", check_image,
        lambda known: (
            f"{known['region']}-docker.pkg.dev/{known['project'].replace(':', '/')}/pipelines-images/training:0.1.0"
        ),
    ),
    Question(
        "template_repository", "Repository of pipeline templates", value_rules.check_template_repository,
        lambda answers: f"https://{answers['region']}-kfp.pkg.dev/{answers['project']}/pipelines-templates",
    ),
    Question(
        "service_account", "Service account of the steps", _check_account,
        lambda answers: _name_account("pipelines-runner", answers["project"]),
    ),
    Question(
        "build_service_account", "Service account of image builds", _check_account,
        lambda answers: _name_account("pipelines-builder", answers["project"]) if answers["service_account"] else "",
    ),
)  # fmt: skip
#: Keys of resources that each project has once.
_PROJECT_KEYS = ("bucket", "image", "template_repository", "service_account", "build_service_account")


def format_file(answers: Mapping[str, str], steps: str) -> str:
    """Returns a commented settings file with the environments dev and prod. `steps` are TOML tables of machines."""
    project, prod_project = answers["project"], answers["prod_project"]
    in_prod = {key: answers[key].replace(_drop_domain(project), _drop_domain(prod_project)) for key in _PROJECT_KEYS}
    changed = [f"{key} = {json.dumps(in_prod[key])}\n" for key in _PROJECT_KEYS if in_prod[key] != answers[key]]
    return _TEXT.format(
        **{key: json.dumps(answers[key]) for key in ("project", "prod_project", "region", *_PROJECT_KEYS[:3])},
        **{key: _format_account(key, answers[key]) for key in _PROJECT_KEYS[3:]},
        prod_changes="".join(changed),
        dev_registry="" if in_prod["bucket"] != answers["bucket"] else _DEV_REGISTRY.format(answers["bucket"]),
        key=json.dumps(f"projects/{prod_project}/locations/{answers['region']}/keyRings/RING/cryptoKeys/KEY"),
        steps=steps.strip() or '#[steps.train]\n#machine = "g2-standard-24"',
    )


def _format_account(key: str, account: str) -> str:
    return f"{key} = {json.dumps(account)}" if account else f"#{key} = ..."


def is_bare(path: Path) -> bool:
    """Whether the file has no project and no environment, like the shipped one, so that `vgp init` may replace it."""
    try:
        return set(toml_text.load(path)) <= {"image", "region", "steps"}
    except RequestError:
        return False


def read_steps(paths: list[Path]) -> str:
    """Returns the tables [steps.*] with their comments, from the first file that has some."""
    import tomlkit

    for path in paths:
        try:
            document = read(path)
            steps = document.values.get("steps")
            Settings.model_validate({"steps": steps or {}})
        except ValueError:  # a missing or broken file is about to be replaced
            continue
        if steps:
            alone = tomlkit.document()
            alone["steps"] = tomlkit.parse(document.text)["steps"]
            return str(alone.as_string())
    return ""


def _drop_domain(project: str) -> str:
    """Returns my-project for example.com:my-project."""
    return project.rsplit(":", 1)[-1]


_DEV_REGISTRY = """\
# A registry of its own, so that no run of dev changes the champion of prod, whose registry is BUCKET/registry.
registry = "{}/registry-dev"
"""

_TEXT = """\
# Where things run. Every key: docs/reference/settings.md. Effective settings and their sources: vgp config.
# Strongest first: flags, variables (PIPELINES_REGION=...), the chosen environment, the top of this file, defaults.

# The default; --env and the variable PIPELINES_ENV override it.
environment = "dev"

region = {region}

# Runs write below it, into runs/.
bucket = {bucket}

# The image of every step; `vgp image build` writes its digest here.
image = {image}

# Where `vgp upload` puts templates, for the console to offer.
template_repository = {template_repository}

# Accounts of the steps and of image builds. The default is Vertex AI's account, which has more rights than they need.
{service_account}
{build_service_account}

[environments.dev]
project = {project}
{dev_registry}labels = {{environment = "dev"}}

[environments.prod]
project = {prod_project}
{prod_changes}labels = {{environment = "prod"}}
#encryption_key = {key}

# A run every night, only in prod, which decides whether to train: vgp schedule plan --env prod.
#[environments.prod.schedules.nightly]
#pipeline = "training"
#cron = "30 2 * * *"
#time_zone = "Europe/Berlin"
#parameters = {{when = "drift", epochs = 3.0}}

# dev trains on one T4, because most new projects have quota for it and none for newer GPUs.
# Delete these lines to train on the machine of [steps.train].
[environments.dev.steps.train]
machine = "n1-standard-8"
accelerator = "T4"
count = 1

# The machine of each step, by Google's name or by need: accelerator = "L4", count = 4.
{steps}
"""


def find_gcloud_project() -> str | None:
    """Returns GOOGLE_CLOUD_PROJECT or the project of gcloud's active configuration, or None without either."""
    project = os.environ.get("GOOGLE_CLOUD_PROJECT") or os.environ.get("CLOUDSDK_CORE_PROJECT")
    return project or _read_active_configuration()


def _read_active_configuration() -> str | None:
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    try:
        marker = folder / "active_config"
        override = os.environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
        name = override or (marker.read_text().strip() if marker.is_file() else "default")
        properties = configparser.ConfigParser(interpolation=None)
        properties.read(folder / "configurations" / f"config_{name}")
    except (OSError, ValueError, configparser.Error):
        return None
    return properties.get("core", "project", fallback=None)
