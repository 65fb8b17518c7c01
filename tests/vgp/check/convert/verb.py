"""`vgp convert` as a user calls it, on one day."""

from datetime import date

import pytest

from vgp.__main__ import main

DAY = date(2026, 11, 20)


def convert(source, *options):
    """The exit code of `vgp convert SOURCE`; what it prints is the caller's to capture."""
    with pytest.raises(SystemExit) as end:
        main(["convert", source, "--as-of", str(DAY), *options])
    return end.value.code
