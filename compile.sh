#!/usr/bin/env bash
# Sets up .venv, then compiles and checks every pipeline into build/. Arguments go to `vgp compile`.
set -euo pipefail
cd "$(dirname "$0")"
./scripts/setup.sh vertex
exec .venv/bin/python -m vgp compile "$@"
