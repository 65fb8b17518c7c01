#!/usr/bin/env bash
# Makes .venv hold what is asked for: `scripts/setup.sh [EXTRA...]`, extras being those of pyproject.toml.
# Does nothing when the same was installed before and neither pyproject.toml nor constraints.txt changed.
set -euo pipefail
cd "$(dirname "$0")/.."

extras=$(printf '%s\n' "$@" | sort -u | paste -sd, -)
stamp=".venv/.installed"
wanted="$(cat pyproject.toml constraints.txt scripts/setup.sh | sha256sum | cut -d' ' -f1)"

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
    if ! { "$python" -m venv --clear --without-pip .venv && "$python" -m pip --python .venv/bin/python install -q pip; }; then
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
if ! .venv/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt --config-settings editable_mode=compat \
  -e ".${extras:+[$extras]}" >"$log" 2>&1; then
  cat "$log" >&2
  echo "error: installing the dependencies failed; the log is above and in $log." >&2
  exit 1
fi
# pip writes the folder's name into its own form of this command, where a shell reads it: a quote or $(...) in it counts.
cat >.venv/bin/pipelines <<'end'
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -P -m pipelines "$@"
end
# pip does this for what it installs; an editable install leaves it to the first start of each command.
.venv/bin/python -m compileall -q pipelines components training
{ echo "$wanted"; printf '%s\n' base "$@" $already | sort -u; } >"$stamp"
