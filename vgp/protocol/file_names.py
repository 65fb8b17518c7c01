"""The names of files that one step writes and another reads."""

DECISION = "decision.json"
