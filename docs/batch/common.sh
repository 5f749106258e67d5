# For slurm.sh and dask.sh: a Stria of five nodes on this machine, and the same ROOT files in it twice.
#
# Every node has its own mount. On a real cluster all are at the same path, each on its own PC; so it is here: what
# runs "on node n3" runs in a mount namespace in which $data is the mount of n3 (on_node).
#
#   $dir      everything is below it; removed at the end       $data     the mounted tree
#   $data/gathered   each file was written on one node, and lies there: arrange=gathered,place=local
#   $data/spread     the same files, striped over all nodes
#   $data/gathered-2, $data/spread-2     both once more: not read before a node is dead, so that no mount has them
# shellcheck shell=bash
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
batch=$repo/docs/batch
stria=${STRIA:-$repo/bazel-bin/tools/stria}
export STRIA=$stria
nodes=(n1 n2 n3 n4 n5)
files_per_node=2
file_mib=${STRIA_BATCH_FILE_MIB:-8}

die() {
  echo "${0##*/}: $1" >&2
  exit 1
}

# The script once more, where mounts are its own affair.
if [[ -z ${STRIA_BATCH_INSIDE:-} ]]; then
  [[ $EUID -eq 0 ]] || die "mount namespaces need root: run it with sudo"
  [[ -w /dev/fuse ]] || die "there is no /dev/fuse that can be used here"
  [[ -x $stria ]] || die "there is no $stria; run ./tools/build"
  STRIA_BATCH_INSIDE=$(mktemp -d "${TMPDIR:-/var/tmp}/stria-batch.XXXXXX")
  export STRIA_BATCH_INSIDE
  code=0
  unshare --mount --propagation private -- "$0" "$@" || code=$?
  rm -rf "$STRIA_BATCH_INSIDE"
  exit "$code"
fi
dir=$STRIA_BATCH_INSIDE
data=$dir/data
mkdir -p "$data" "$dir/results"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$repo/tools/python/src:$batch STRIA_LOG_LEVEL=${STRIA_LOG_LEVEL:-}

children=()  # pids of daemons to be ended
finish() {
  local code=$?
  trap - EXIT
  for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
  local end=$((SECONDS + 10))  # a Dask worker may hang in its own end, and would keep the cluster
  for pid in "${children[@]}"; do
    while kill -0 "$pid" 2>/dev/null && ((SECONDS < end)); do sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  mountpoint -q "$data" && umount -l "$data"
  if [[ $code -ne 0 ]]; then tail -n 20 "$dir"/*.log "$dir"/cluster/log/*.log 2>/dev/null >&2 || true; fi
  "$stria" dev down --dir "$dir/cluster" >/dev/null || true
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# on_node NODE COMMAND..: as if on that PC
# shellcheck disable=SC2016  # bash -c expands them
in_namespace=(unshare --mount --propagation private --
  bash -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' -)
on_node() {
  "${in_namespace[@]}" "$dir/mnt/$1" "$data" "${@:2}"
}

# daemon NODE LOG COMMAND..: the same in the background, ended with the script; $! is its pid
daemon() {
  "${in_namespace[@]}" "$dir/mnt/$1" "$data" "${@:3}" >>"$2" 2>&1 &
  children+=($!)
}

find_python() {
  local p
  for p in "${STRIA_PYTHON:-}" "${XDG_CACHE_HOME:-$HOME/.cache}/stria/batch-venv/bin/python"; do
    if [[ -n $p ]] && "$p" -c "import uproot, awkward, numpy ${1:-}" 2>/dev/null; then
      python=$p
      return
    fi
  done
  local venv=${XDG_CACHE_HOME:-$HOME/.cache}/stria/batch-venv
  echo "== Python with uproot and Dask, in $venv (some minutes the first time)"
  /usr/bin/python3 -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check 'uproot>=5.6' awkward numpy xxhash cramjam fsspec 'dask[distributed]'
  python=$venv/bin/python
}

start_cluster() {
  echo "== Stria: five nodes, a mount on each"
  "$stria" dev up --dir "$dir/cluster" --nodes 5 --disks 2 --layout raid5:4+1 >/dev/null
  eval "$("$stria" dev env --dir "$dir/cluster")"
  for n in "${nodes[@]}"; do
    mkdir -p "$dir/mnt/$n"
    "$stria" dev mount --dir "$dir/cluster" --at "$dir/mnt/$n" --node "$n" >/dev/null
  done
  mount --bind "$dir/mnt/n1" "$data"
}

# Each node makes files; as their directory says place=local, they stay on it. Then a copy, spread.
make_data() {
  echo "== ROOT files, each made on one of the nodes"
  mkdir "$data/gathered" "$data/gathered-2" "$data/spread"
  for n in gathered gathered-2; do
    "$stria" layout set "$data/$n" raid5:4+1,arrange=gathered,unit=16M,place=local >/dev/null
  done
  local i=0 f n
  for n in "${nodes[@]}"; do
    on_node "$n" "$python" "$repo/tools/analysis/make_events.py" "$data/gathered" --chunk 40000 \
      --files "$files_per_node" --first "$i" --mib $((files_per_node * file_mib))
    for f in "$data"/gathered/*.root; do
      [[ -e $data/gathered-2/${f##*/} ]] || on_node "$n" cp "$f" "$data/gathered-2/"
    done
    i=$((i + files_per_node))
  done
  cp "$data"/gathered/*.root "$data/spread/"
  mkdir "$data/spread-2"
  cp "$data"/spread/*.root "$data/spread-2/"
  # One process, for comparison: of the source, not of the files measured later.
  "$python" "$repo/tools/analysis/dimuon.py" "$data"/spread/*.root --quiet --json "$dir/results/expected.json" 2>/dev/null
  local gathered=("$data"/gathered/*)
  "$stria" where "${gathered[0]}" --by-host
}

# Mounts that have read nothing yet.
fresh_mounts() {
  if mountpoint -q "$data"; then umount "$data"; fi
  local node name pid
  while read -r node name pid; do
    umount "$dir/mnt/$node"
    local end=$((SECONDS + 60))
    until [[ ! -e /proc/$pid || $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) == Z* ]]; do
      ((SECONDS < end)) || die "the mount of $node did not end within a minute"
      sleep 0.1
    done
    "$stria" dev start "$name" --dir "$dir/cluster" >/dev/null </dev/null
  done < <("$python" -c 'import json, sys
for p in json.load(open(sys.argv[1]))["processes"]:
    if p["kind"] == "mount": print(p["node"], p["name"], p["pid"])' "$dir/cluster/cluster.json")
  mount --bind "$dir/mnt/n1" "$data"
}

await_no_work_for() {  # NODE: it counts as dead, and other nodes get the work on its data
  local end=$((SECONDS + 120))
  until "$stria" split "$data/gathered" --by host 2>/dev/null | grep -q "\"node\": \"$1\""; do
    ((SECONDS < end)) || die "$1 still counts as alive after two minutes"
    sleep 1
  done
}
