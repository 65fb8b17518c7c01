"""Specs as Google's own tools write them, compiled once."""

import pytest

from tests.vgp.check import every_kind as pipeline


@pytest.fixture(scope="session")
def every_kind(tmp_path_factory):
    """A pipeline of every kind of step, compiled by kfp and GCPC: (JSON path, YAML path)."""
    return pipeline.compiled(tmp_path_factory.mktemp("compiled"))
