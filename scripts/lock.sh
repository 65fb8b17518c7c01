#!/usr/bin/env bash
# Writes constraints.txt: every version that any extra needs, on every platform, with the hash of each of its files.
# Versions do not change unless you ask for it: `scripts/lock.sh --upgrade-package rich`, or `--upgrade`.
# Needs uv (`pip install uv`); installing from constraints.txt does not.
set -euo pipefail
cd "$(dirname "$0")/.."

# What builds the package, and pip itself: for a Python that comes without it.
tools=$(python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "pip", sep="\n")')
uv pip compile pyproject.toml - <<<"$tools" --all-extras --universal --python-version 3.11 \
  --generate-hashes --no-header --no-emit-index-url --quiet --output-file constraints.txt "$@"

# uv keeps the hashes of a version that stays, those of PyTorch's CPU builds with them.
python3 - <<'END'
from pathlib import Path

header = """\
# The exact versions that were tested together, each with the hash of all its files. Written by scripts/lock.sh.
# Install from it with scripts/setup.sh; what an extra needs of it: python3 vgp/base/lock.py EXTRA...
#
# torch has two kinds of files: those of the package index, for CUDA on Linux, and, under the same version with +cpu,
# PyTorch's own CPU builds (CPython 3.11 to 3.14 on Linux). An index may serve either; whichever comes has to be one of
# these. After a new version of torch add the hashes of its CPU builds by hand.
"""
path = Path("constraints.txt")
path.write_text(header + path.read_text())
END
