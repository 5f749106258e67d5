#!/usr/bin/env bash
# A Slurm of five nodes runs the dimuon analysis on a Stria of five nodes, next to the data: ./docs/batch/slurm.sh
#
# `stria split --align root --format slurm` writes a list of work for each node and the script that submits one job
# for each; Slurm prefers the node of the list. Shown: which share of the bytes came from local disks, for files that
# lie on one node each (gathered) beside striped ones (spread), and with one PC dead. Exit 0 if gathered gave at least
# 90 % and every histogram is that of a single process.
#
# Needs root, /dev/fuse, a built Stria, and Debian's slurmctld, slurmd and slurm-client. Leaves nothing behind.
for program in slurmctld slurmd sbatch; do
  [[ -x $(PATH=$PATH:/usr/sbin command -v $program) ]] || {
    echo "slurm.sh: there is no $program; apt-get install slurmctld slurmd slurm-client" >&2
    exit 1
  }
done
. "$(dirname "$0")/common.sh"
PATH=$PATH:/usr/sbin
export SLURM_CONF=$dir/slurm.conf

free_ports() {
  "$python" -c 'import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])' "$1"
}

# On one machine, without accounts or shared secrets: for a real cluster, see Slurm's own documentation.
start_slurm() {
  echo "== Slurm: five nodes"
  local ports
  read -ra ports <<<"$(free_ports 6)"
  mkdir -p "$dir/slurm"
  cat >"$SLURM_CONF" <<CONF
ClusterName=stria
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[5]}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=1
ReturnToService=2
StateSaveLocation=$dir/slurm/state
SlurmdSpoolDir=$dir/slurm/%n
SlurmctldPidFile=$dir/slurm/ctld.pid
SlurmdPidFile=$dir/slurm/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
$(for i in 0 1 2 3 4; do
    n=${nodes[i]}
    echo "NodeName=$n NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[i]} CPUs=1 Feature=$n State=UNKNOWN"
  done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  slurmctld -D -c >>"$dir/slurmctld.out.log" 2>&1 &
  children+=($!)
  for n in "${nodes[@]}"; do
    daemon "$n" "$dir/slurmd-$n.out.log" slurmd -D -N "$n"
    slurmd_pid[$n]=$!
  done
  local end=$((SECONDS + 60))
  until [[ $(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l) -eq 5 ]]; do
    ((SECONDS < end)) || die "Slurm did not start within a minute"
    sleep 0.5
  done
}
declare -A slurmd_pid

# run WHAT DIRECTORY [CHECK..]: of report.py; --promise alone means what the split promised
run() {
  local what=$1 files=$2 out=$dir/results/$1 checks=("${@:3}")
  mkdir -p "$out"
  "$stria" split "$data/$files" --by host --align root --format slurm --lists "$out/lists" >"$out/submit.sh"
  [[ ${3:-} != --promise ]] || checks+=("$(sed -n 's/^# promise: \([0-9]*\) .*/\1/p' "$out/submit.sh")")
  local jobs
  jobs=$(SBATCH_OPTIONS="--output=$out/%j.log --chdir=$dir" bash "$out/submit.sh" \
    "$python" "$batch/dimuon_part.py" --out "$out" | cut -d';' -f1 | paste -sd,)
  local end=$((SECONDS + 300))
  while [[ -n $(squeue -h -j "$jobs" 2>/dev/null) ]]; do
    ((SECONDS < end)) || { squeue >&2; die "the jobs did not end within five minutes"; }
    sleep 0.5
  done
  local made asked
  made=$(find "$out" -maxdepth 1 -name '*.json' | wc -l)
  asked=$(find "$out/lists" -maxdepth 1 -name '*.json' | wc -l)
  if ((made != asked)); then
    tail -n 5 "$out"/*.log >&2
    die "a job of '$what' failed"
  fi
  "$python" "$batch/report.py" "$what" "$dir/results/expected.json" "$out"/*.json "${checks[@]}" | tee -a "$dir/results/summary"
}

# shellcheck disable=SC2119  # no further modules are needed
find_python
export STRIA_PYTHON=$python
start_cluster
make_data
fresh_mounts
start_slurm
echo "== Jobs"
run spread spread
run gathered gathered --at-least 90
echo "== n3 is dead: its data server and its slurmd"
"$stria" dev kill n3 --dir "$dir/cluster"
kill -9 "${slurmd_pid[n3]}"
scontrol update nodename=n3 state=down reason=dead
await_no_work_for n3
run spread-without-n3 spread-2
run gathered-without-n3 gathered-2 --promise
echo "== Done"
cat "$dir/results/summary"
