"""What the documents call not verified, as facts: `scripts/acceptance.sh PROJECT`, about a dollar on a real project.

__main__.py     says what it costs, asks, runs the checks, cleans up, writes the transcript
workflows.py    the pipelines that it runs: small steps that show one thing each
cloud.py        runs started, waited for, and everything taken away again
checks.py       what was expected, what was seen, and the verdict
transcript.py   the rows, redacted: JSON lines that tests read as data, and text
transcripts/    transcripts of earlier runs; a test reads them all
"""
