#!/usr/bin/env bash
# Installs the command of this very version into $RUNNER_TEMP/pipelines-check, once in a job; every file by its hash.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="$RUNNER_TEMP/pipelines-check"
[ ! -x "$folder/python/bin/vgp" ] || exit 0
mkdir -p "$folder"
"$PYTHON" -m venv --clear "$folder/python"
python="$folder/python/bin/python"
"$python" vgp/base/lock.py --build >"$folder/build.txt"
"$python" vgp/base/lock.py >"$folder/requirements.txt"
pip() { "$python" -m pip --disable-pip-version-check install --quiet "$@"; }
pip --require-hashes --no-deps --no-build-isolation -r "$folder/build.txt"
pip --require-hashes --no-deps --no-build-isolation -r "$folder/requirements.txt"
pip --no-deps --no-build-isolation .
