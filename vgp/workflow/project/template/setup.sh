#!/usr/bin/env bash
# Installs into .venv the library (pinned by hash in vgp.txt), its tested dependencies, and requirements.txt.
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check -q "$@"; }
locked() { .venv/bin/python -m vgp.base.lock "$@" >.venv/locked.txt; }

pip_install --require-hashes --no-deps -r vgp.txt
# Build tools come first, then PyTorch, because its build (CPU or CUDA) decides which further libraries are needed.
locked --build
pip_install --require-hashes --no-deps --no-build-isolation -r .venv/locked.txt
locked --only torch
sed 's/^torch==[0-9.]*/&+cpu/' .venv/locked.txt >.venv/cpu.txt
pip_install --require-hashes --no-deps -r .venv/cpu.txt 2>/dev/null ||
  pip_install --require-hashes --no-deps --no-build-isolation -r .venv/locked.txt
locked vertex training
pip_install --require-hashes --no-deps --no-build-isolation -r .venv/locked.txt
pip_install -r requirements.txt
