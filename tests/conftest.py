"""What the tests of every room share: the loopback cloud (tests/loopback/cloud.py), and its fixture `cloud`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from loopback.fixture import cloud

__all__ = ["cloud"]
