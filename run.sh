#!/usr/bin/env bash
# Sets up .venv, compiles and checks every pipeline, and runs the training pipeline on this machine with two training
# processes. Arguments go to `vgp run training`.
set -euo pipefail
cd "$(dirname "$0")"
./scripts/setup.sh vertex training
./compile.sh
exec .venv/bin/python -m vgp run training --nproc 2 "$@"
