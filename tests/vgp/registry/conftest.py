import pytest
from helpers.run_wing import *  # noqa: F403

from tests.vgp.registry.records import key_of
from vgp.registry import registry


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path):
    """A registry of flights that is not there yet, in a folder or in a bucket."""
    if request.param == "disk":
        return registry.open(str(tmp_path / "registry"), "flights")
    folder = f"{request.getfixturevalue('bucket')}/{key_of(request.node.name)[:12]}"
    return registry.open(folder, "flights")
