#!/usr/bin/env bash
# A Dask cluster with a worker on each node runs the dimuon analysis next to the data: ./docs/batch/dask.sh
#
# As slurm.sh, with Dask: stria.split() names for each range of events the worker that holds its bytes. Exit 0 if
# gathered files gave at least 90 % local bytes, and as many as promised, and every histogram is that of a single process.
#
# Needs root, /dev/fuse and a built Stria; uproot and Dask are installed into a venv of its own. Leaves nothing behind.
. "$(dirname "$0")/common.sh"

declare -A worker_pid
start_dask() {
  echo "== Dask: a scheduler and five workers"
  # An idle worker would steal tasks from the one that holds their bytes, and read them over the network.
  DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING=False "$python" -m distributed.cli.dask_scheduler --host 127.0.0.1 --port 0 --no-dashboard \
    --scheduler-file "$dir/scheduler.json" >"$dir/scheduler.log" 2>&1 &
  children+=($!)
  local end=$((SECONDS + 120))
  until [[ -s $dir/scheduler.json ]]; do
    ((SECONDS < end)) || die "the Dask scheduler did not start within two minutes"
    sleep 0.5
  done
  address=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$dir/scheduler.json")
  for n in "${nodes[@]}"; do
    daemon "$n" "$dir/worker-$n.log" "$python" -m distributed.cli.dask_worker "$address" --name "$n" --nthreads 1 \
      --no-nanny --no-dashboard --memory-limit 0 --local-directory "$dir/dask-$n"
    worker_pid[$n]=$!
  done
  "$python" -c 'import sys; from dask.distributed import Client; Client(sys.argv[1]).wait_for_workers(5, timeout=180)' "$address"
}

# run WHAT DIRECTORY [CHECK..]: of report.py; --promise alone means what the split promised
run() {
  local out=$dir/results/$1.json checks=("${@:3}")
  "$python" "$batch/dask_run.py" "$address" "$1" "$data/$2" "$out"
  [[ ${3:-} != --promise ]] || checks+=("$(<"$out.promise")")
  "$python" "$batch/report.py" "$1" "$dir/results/expected.json" "$out" "${checks[@]}" | tee -a "$dir/results/summary"
}

find_python ', distributed'
export STRIA_PYTHON=$python
start_cluster
make_data
fresh_mounts
start_dask
echo "== Tasks"
run spread spread
run gathered gathered --at-least 90
echo "== n3 is dead: its data server and its worker"
"$stria" dev kill n3 --dir "$dir/cluster"
kill -9 "${worker_pid[n3]}"
await_no_work_for n3
run spread-without-n3 spread-2
run gathered-without-n3 gathered-2 --promise
echo "== Done"
cat "$dir/results/summary"
