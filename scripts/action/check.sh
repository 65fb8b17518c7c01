#!/usr/bin/env bash
# Checks the changes of a pull request, or the named files, in the current folder; writes SARIF and the comment's text.
# It runs no code of the checked files, and uses their names on command lines only behind ./ or --.
set -euo pipefail

folder="$RUNNER_TEMP/pipelines-check"
pipelines="$folder/python/bin/vgp"
wanted=('*.json' '*.yaml' '*.yml' '*.py' '*.ipynb' '*.sh' '*.bash' '*.zsh' '*.mk' '*.ps1' '*.bat' '*.cmd' '*.tf'
  '*akefile' '*Dockerfile*' '*pipelines.toml')
rm -rf "$folder/before" "$folder/index" "$folder/comment.md"
mkdir -p "$folder/before" "$folder/nothing"

# The state that a pull request goes into: the first parent of GitHub's merge commit, else where the branches parted.
base_commit() {
  if [ "$(git rev-parse HEAD)" = "${GITHUB_SHA:-}" ] && git rev-parse --quiet --verify 'HEAD^2^{commit}' >/dev/null; then
    git rev-parse 'HEAD^1'
  elif git cat-file -e "$BASE_SHA^{commit}" 2>/dev/null; then
    git merge-base HEAD "$BASE_SHA" || echo "$BASE_SHA"
  else
    echo "::error::The state before the pull request is not there. Give actions/checkout fetch-depth: 2." >&2
    exit 2
  fi
}

# Writes the files of that state, read by an index of its own.
write_before() (
  export GIT_INDEX_FILE="$folder/index"
  git read-tree "$1"
  git ls-files -z -- "${wanted[@]}" '*.tfvars' | git checkout-index -z --stdin --prefix="$folder/before/"
)

options=()
read -r -d '' -a regions <<<"$REGIONS" || true
read -r -d '' -a ignored <<<"$IGNORE" || true
for region in "${regions[@]}"; do options+=("--region=$region"); done
for rule in "${ignored[@]}"; do options+=("--ignore=$rule"); done

paths=()
while IFS= read -r line; do [ -z "$line" ] || paths+=("$line"); done <<<"$PATHS"
before="$BEFORE"
if [ -n "$BASE_SHA" ] && { [ -z "$before" ] || [ ${#paths[@]} -eq 0 ]; }; then
  cd "$(git rev-parse --show-toplevel)"
  base=$(base_commit)
  if [ -z "$before" ]; then
    write_before "$base"
    before="$folder/before"
  fi
  if [ ${#paths[@]} -eq 0 ]; then
    git diff -z --name-only --no-renames "$base" HEAD -- "${wanted[@]}" >"$folder/changed" # if it fails, so does the check
    mapfile -d '' -t paths <"$folder/changed"
    paths=("${paths[@]/#/./}")
  fi
elif [ ${#paths[@]} -eq 0 ]; then
  paths=(.)
fi

there=()
for path in "${paths[@]}"; do [ ! -e "$path" ] || there+=("$path"); done
[ ${#there[@]} -gt 0 ] || there=("$folder/nothing")

# A line of a file must not be taken for a command to the runner.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$token"
code=0
"$pipelines" check --skip-others "${options[@]}" -- "${there[@]}" || code=$?
echo "::$token::"
# Help links lead to the version of the action that runs; its folder is named .../_actions/OWNER/NAME/REF.
if [[ "$ACTION_PATH" =~ /_actions/([^/]+/[^/]+)/(.+)$ ]]; then
  options+=("--rules-url=$GITHUB_SERVER_URL/${BASH_REMATCH[1]}/blob/${BASH_REMATCH[2]}/docs/reference/rules")
fi
"$pipelines" check --skip-others --format sarif "${options[@]}" -- "${there[@]}" >"$folder/check.sarif" || [ $? -le 2 ]
if [ -n "$before" ]; then
  if [ ${#paths[@]} -gt 0 ]; then
    "$pipelines" check --format markdown --compare "$before" "${options[@]}" -- "${paths[@]}" >"$folder/comment.md" ||
      [ -s "$folder/comment.md" ]
  else
    printf '### Machines, and what a run can cost at most\n\nNo file that could ask for a machine is changed.\n' \
      >"$folder/comment.md"
  fi
  cat "$folder/comment.md" >>"$GITHUB_STEP_SUMMARY"
  echo "comment=$folder/comment.md" >>"$GITHUB_OUTPUT"
fi
{
  echo "sarif=$folder/check.sarif"
  echo "exit-code=$code"
} >>"$GITHUB_OUTPUT"
