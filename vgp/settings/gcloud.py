"""The project that gcloud is set to, read from its files: a default to offer, never a setting by itself.

Places as gcloud has them: https://cloud.google.com/sdk/docs/configurations
"""

import configparser
import os
from pathlib import Path


def project() -> str | None:
    """GOOGLE_CLOUD_PROJECT, or the project of gcloud's active configuration; None if there is neither."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT") or os.environ.get("CLOUDSDK_CORE_PROJECT") or _active()


def _active() -> str | None:
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    try:
        marker = folder / "active_config"
        named = os.environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
        name = named or (marker.read_text().strip() if marker.is_file() else "default")
        properties = configparser.ConfigParser(interpolation=None)
        properties.read(folder / "configurations" / f"config_{name}")
    except (OSError, ValueError, configparser.Error):
        return None
    return properties.get("core", "project", fallback=None)
