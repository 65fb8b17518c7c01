#!/usr/bin/env bash
# Checks on a real project the behaviour that the documents call not verified, for about a dollar:
#   scripts/acceptance.sh PROJECT [--yes] [--no-gpu] [--public] [--clean]
# It shows its cost, asks, deletes everything that it created, and writes a transcript without names: docs/internals/acceptance.md.
set -uo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
[ -x .venv/bin/python ] || ./scripts/setup.sh vertex || exit
python=.venv/bin/python

# A kill -9 of Python, or a machine that ran out of memory, leaves the deleting to this shell.
"$python" -m tools.acceptance "$@"
code=$?
if [ "$code" -gt 128 ] && [ "$code" -ne 130 ]; then
  "$python" -m tools.acceptance "$@" --clean
fi
exit "$code"
