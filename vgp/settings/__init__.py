"""The settings of pipelines.toml, typed and checked.

region = "us-central1"
image = "us-central1-docker.pkg.dev/my-project/training/training@sha256:..."

[steps.train]
machine = "g2-standard-24"

[environments.prod]
project = "my-project-prod"

Every key: docs/reference/settings.md. The effective settings and their sources: `vgp config`.

settings_loading.py   reads file, environment, variables and flags into `Settings`; lists values for `vgp config`
settings_model.py     the model of all settings
schedule_settings.py  the settings of a recurring run, and references to templates
value_rules.py        checks of single values
messages.py           formats errors of values as one line each
layers.py             merges settings from several sources, such as environment variables
settings_text.py      reads the file with the line of each value, and writes single values
repository.py         finds the repository of a command, and its workflows
first_file.py         the questions of `vgp init`, and the file that it writes"""

from vgp.base.documents.toml_text import FILE_NAME
from vgp.settings.layers import Source
from vgp.settings.repository import Repository
from vgp.settings.schedule_settings import Schedule
from vgp.settings.settings_loading import find_repository, load
from vgp.settings.settings_model import Settings
from vgp.settings.settings_text import write_values

__all__ = ["FILE_NAME", "Repository", "Schedule", "Settings", "Source", "load", "find_repository", "write_values"]
