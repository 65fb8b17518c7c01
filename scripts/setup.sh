#!/usr/bin/env bash
# Makes .venv hold what is asked for: `scripts/setup.sh [EXTRA...]`, extras being those of pyproject.toml.
# Does nothing when the same was installed before and neither pyproject.toml nor constraints.txt changed.
# Every file that is installed has one of the hashes of constraints.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=".venv/.installed"
wanted="$(cat pyproject.toml constraints.txt scripts/setup.sh vgp/base/lock.py | sha256sum | cut -d' ' -f1)"

# The stamp holds the digest, then one line for each extra that is installed ("base" for none).
installed() {
  [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$wanted" ] || return 1
  for extra in base "$@"; do grep -qx "$extra" "$stamp" || return 1; done
}
installed "$@" && exit 0

find_python() {
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo "$candidate"; return; }
  done
  echo "error: Python 3.11 or newer is needed, and none was found. Set PYTHON=/path/to/python3." >&2
  exit 2
}

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  python=$(find_python)
  echo "Setting up .venv with $("$python" --version)..." >&2
  # Debian's Python comes without ensurepip unless python3-venv is installed; pip alone can fill the gap.
  if ! "$python" -m venv --clear .venv >/dev/null 2>&1; then
    if ! { "$python" -m venv --clear --without-pip .venv && "$python" vgp/base/lock.py --only pip >.venv/pip.txt &&
      "$python" -m pip --python .venv/bin/python install -q --require-hashes --no-deps -r .venv/pip.txt; }; then
      rm -rf .venv
      echo "error: $python cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv" >&2
      exit 2
    fi
  fi
fi

echo "Installing the pinned dependencies into .venv (minutes the first time)..." >&2
already=$( [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$wanted" ] && tail -n +2 "$stamp" || true )
rm -f "$stamp"
log=.venv/install.log
: >"$log"

# Runs one step of the installation, and shows its output if it fails.
pip_install() {
  try_install "$@" && return
  cat "$log" >&2
  echo "error: installing the dependencies failed; the log is above and in $log." >&2
  if grep -q "DO NOT MATCH THE HASHES" "$log"; then
    echo "  A file is not the one that was tested. If your index serves a build of its own, add its hash: CONTRIBUTING.md." >&2
  fi
  exit 1
}

try_install() {
  .venv/bin/python -m pip install --disable-pip-version-check -q "$@" >>"$log" 2>&1
}

# The locked requirements of the extras, pinned, hashed and complete. They are installed with --no-deps, because for a
# dependency with an extra, such as google-auth[pyopenssl], pip 23 looks past the pin at the newest release.
locked() {
  .venv/bin/python vgp/base/lock.py "$@" >.venv/requirements.txt
}

locked --build
pip_install --require-hashes --no-deps --no-build-isolation -r .venv/requirements.txt
locked "$@"
if grep -q '^torch==' .venv/requirements.txt; then
  # PyTorch comes first, because its build decides which further libraries it needs. A build for CPUs is preferred, as
  # in plain pip; pip's hash mode prefers an index, which lists hashes, to a folder of files.
  locked --only torch
  sed 's/^torch==[0-9.]*/&+cpu/' .venv/requirements.txt >.venv/cpu.txt
  try_install --require-hashes --no-deps -r .venv/cpu.txt ||
    pip_install --require-hashes --no-deps --no-build-isolation -r .venv/requirements.txt
  locked "$@"
fi
# What has no wheel is built with the locked build backend, not with one that pip fetches for the occasion.
pip_install --require-hashes --no-deps --no-build-isolation -r .venv/requirements.txt
pip_install --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
# pip writes the folder's name into its own form of this command, where a shell reads it: a quote or $(...) in it counts.
cat >.venv/bin/vgp <<'end'
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -P -m vgp "$@"
end
cat >.venv/bin/pipelines <<'end'
#!/bin/sh
echo "note: this command is called vgp now; the name pipelines goes with the next version." >&2
exec "$(dirname "$(readlink -f "$0")")/vgp" "$@"
end
# pip does this for what it installs; an editable install leaves it to the first start of each command.
.venv/bin/python -m compileall -q vgp pipelines components training
{ echo "$wanted"; printf '%s\n' base "$@" $already | sort -u; } >"$stamp"
