"""pipelines.toml -> typed settings, checked once.

region = "us-central1"
image = "us-central1-docker.pkg.dev/my-project/training/training@sha256:..."

[steps.train]
machine = "g2-standard-24"

[environments.prod]
project = "my-project-prod"

Every key: docs/settings.md. What is in effect, and why: `pipelines config`.
"""

from vgp.documents.settings_file import FILE_NAME
from vgp.settings.document import write_value
from vgp.settings.layers import Source
from vgp.settings.loading import load, repository_of
from vgp.settings.model import Settings
from vgp.settings.repository import Repository
from vgp.settings.schedule import Schedule

__all__ = ["FILE_NAME", "Repository", "Schedule", "Settings", "Source", "load", "repository_of", "write_value"]
