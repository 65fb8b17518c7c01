#!/usr/bin/env bash
# Sets up everything, then checks style, import rules and types, and runs every test. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
# Tests start hundreds of processes; what each would compile anew is kept.
unset PYTHONDONTWRITEBYTECODE
scripts/setup.sh vertex training beam huggingface dev
.venv/bin/ruff format --check .
.venv/bin/ruff check .
# In a fresh clone the tests are compiled once, beside mypy, which has one core; else each worker would.
[ -d tests/__pycache__ ] || .venv/bin/python -m pytest --collect-only -qq "$@" >/dev/null 2>&1 &
.venv/bin/python -m mypy
wait
# A file stays on one worker, so that what its tests share is made once. Many tests wait: one worker more than cores.
.venv/bin/python -m pytest -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder "$@"
