#!/usr/bin/env bash
# Sets up .venv, checks style, import rules and types, and runs every test. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
# Tests start hundreds of processes, which share compiled bytecode.
unset PYTHONDONTWRITEBYTECODE
scripts/setup.sh vertex training beam huggingface dev
.venv/bin/ruff format --check .
.venv/bin/ruff check .
# In a fresh clone, compile the tests once while mypy runs, because otherwise each worker compiles them.
[ -d tests/__pycache__ ] || .venv/bin/python -m pytest --collect-only -qq "$@" >/dev/null 2>&1 &
.venv/bin/python -m mypy
wait
# Tests of a file stay on one worker to share fixtures. Many tests wait, so there is one more worker than cores.
.venv/bin/python -m pytest -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder "$@"
