"""The exit step of a run: its summary, written as an artifact, printed, and sent where that is configured."""
