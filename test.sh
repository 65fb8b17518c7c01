#!/usr/bin/env bash
# Sets up everything, then checks style, import rules and types, and runs every test. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh vertex training dev
.venv/bin/ruff format --check .
.venv/bin/ruff check .
.venv/bin/python -m mypy
# One worker a core; a file stays on one worker, so that what its tests share is made once.
.venv/bin/python -m pytest -n 3 --dist loadfile "$@"
