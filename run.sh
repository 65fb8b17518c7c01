#!/usr/bin/env bash
# Sets up everything, compiles and checks every pipeline, and runs the training pipeline on this machine with two
# training processes. Arguments go to `pipelines run training`.
set -euo pipefail
"$(dirname "$0")/scripts/setup.sh" vertex training
"$(dirname "$0")/compile.sh"
exec "$(dirname "$0")/.venv/bin/pipelines" run training --nproc 2 "$@"
