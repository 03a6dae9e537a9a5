# shellcheck shell=bash
# What the suites share; source it, do not run it. Every check ends the suite when it does not hold.

work=$(mktemp -d)
export KUBECACHEDIR=$work/discovery # another cluster's kinds are not to be found
undo=()
finish() {
  local step
  for step in "${undo[@]}"; do eval "$step" >&2 || true; done
  rm -rf "$work"
}
trap finish EXIT

fail() { echo "failed: $*" >&2; exit 1; }

# same IS SHOULD WHAT
same() { [ "$1" = "$2" ] || fail "$3: $1, not $2"; }

# contains TEXT PART…
contains() {
  local text=$1 part
  shift
  for part; do case $text in *"$part"*) ;; *) fail "no '$part' in: $text" ;; esac; done
}

# eventually COMMAND…: repeats it until it succeeds.
eventually() {
  local end=$((SECONDS + 120))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { "$@" || true; fail "never: $*"; }
    sleep 0.3
  done
}

# scratch VARIABLE…: each names a folder of this run.
scratch() { local name; for name; do export "$name=$work/$name"; mkdir -p "$work/$name"; done; }

# field PATH: what stands there in the JSON of the standard input; a number is a place in a list.
field() {
  python3 -c 'import functools, json, sys
step = lambda tree, key: tree[int(key)] if isinstance(tree, list) else tree[key]
print(functools.reduce(step, sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}
