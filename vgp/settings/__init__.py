"""The settings of pipelines.toml, typed and checked.

region = "us-central1"
image = "us-central1-docker.pkg.dev/my-project/training/training@sha256:..."

[steps.train]
machine = "g2-standard-24"

[environments.prod]
project = "my-project-prod"

Every key: docs/reference/settings.md. The effective settings and their sources: `vgp config`.

settings_loading.py   file, environment, variables and flags become `Settings`, or one message; `vgp config`
settings_model.py     the settings as all code sees them, with who is told of runs: people, an MLflow server
schedule_settings.py  a recurring run, as the file declares it, and the template that it may run
value_rules.py        what one value must look like
messages.py           what is wrong with a value, as one line
layers.py             settings of several places laid over one another, environment variables among them
settings_text.py      the file as text: values, the line of each, one value written
repository.py         the repository that a command serves, and the workflows in it
first_file.py         `vgp init`: what it asks, gcloud's project, and the text that it writes"""

from vgp.base.documents.toml_text import FILE_NAME
from vgp.settings.layers import Source
from vgp.settings.repository import Repository
from vgp.settings.schedule_settings import Schedule
from vgp.settings.settings_loading import load, repository_of
from vgp.settings.settings_model import Settings
from vgp.settings.settings_text import write_value

__all__ = ["FILE_NAME", "Repository", "Schedule", "Settings", "Source", "load", "repository_of", "write_value"]
