#!/usr/bin/env bash
# Measures on a GPU what only a GPU can show, in five slices of at most eight minutes, and writes JSON to gpu-hour/:
#   scripts/gpu_hour.sh [--slice N] [--on-cpu]     # more: --help, docs/internals/gpu-hour.md
# Uses the machine's own Python with its PyTorch, python3 unless PYTHON names another; installs nothing, needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if ! command -v "$python" >/dev/null; then
  echo "error: there is no $python. Name a Python 3.11 or newer that has PyTorch: PYTHON=/path/to/python $0" >&2
  exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "error: $("$python" --version) is too old. Name a Python 3.11 or newer: PYTHON=python3.12 $0" >&2
  exit 2
fi
exec "$python" -m tools.gpu_hour "$@"
