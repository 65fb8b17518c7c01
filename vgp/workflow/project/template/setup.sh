#!/usr/bin/env bash
# Makes .venv hold what this repository was tested with. What training/lock names is installed by its hash.
# The command itself comes as training/lock/tool.txt says; another place: VGP=/path/to/the.whl ./setup.sh
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check -q "$@"; }
locked() { (cd training/lock && ../../.venv/bin/python locked.py "$@") >.venv/requirements.txt; }

# First what builds packages, then PyTorch: which of its builds it is tells which further libraries it needs.
locked --build
pip_install --require-hashes --no-deps -r .venv/requirements.txt
locked --only torch
sed 's/^torch==[0-9.]*/&+cpu/' .venv/requirements.txt >.venv/cpu.txt
pip_install --require-hashes --no-deps -r .venv/cpu.txt 2>/dev/null ||
  pip_install --require-hashes --no-deps -r .venv/requirements.txt
locked vertex training
pip_install --require-hashes --no-build-isolation -r .venv/requirements.txt
pip_install --no-deps "${VGP:-$(cat training/lock/tool.txt)}"
pip_install -r requirements.txt
