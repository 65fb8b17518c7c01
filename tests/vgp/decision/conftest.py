"""The fixtures of the rooms that run inside a step."""

from helpers.run_wing import *  # noqa: F403
