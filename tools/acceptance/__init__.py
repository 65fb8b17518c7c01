"""Checks on a real project the behaviour that the documents call not verified: `scripts/acceptance.sh PROJECT`.

__main__.py     shows the cost, asks, runs the checks, cleans up, writes the transcript
workflows.py    the pipelines of small steps, each of which shows one behaviour
cloud.py        starts runs, waits for them, and deletes everything
checks.py       the checks: expected, seen, verdict
transcript.py   the redacted rows: JSON lines that tests read, and text
transcripts/    transcripts of earlier runs; a test reads them all
"""
