"""Describes the machine of a measurement, for the title of every table."""

import os
import platform
from datetime import date
from pathlib import Path


def describe() -> str:
    """Returns processor, cores, Python and date as one line."""
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
