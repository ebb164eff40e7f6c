#!/usr/bin/env bash
# A Slurm of two nodes, node1 and node2, on this machine, for srun; it listens on 127.0.0.1 alone and needs no munge.
#
# Usage: tests/support/slurm.sh start FOLDER      make it there; exit 77 where this machine can't, with the reason. Prints what SLURM_CONF
#                                                 has to be for srun to reach it
#        tests/support/slurm.sh stop FOLDER       end it, with all of its jobs
set -euo pipefail

fail() {
  echo "slurm: $2" >&2
  exit "$1"
}

(($# == 2)) || fail 64 "expected start or stop, and a folder"
folder=$2

# The pids of its daemons, from their files. A daemon that has ended has no command any more, even if its exit code wasn't
# collected.
running() {
  local pid
  for pid in $(cat "$folder"/*.pid 2> /dev/null || true); do
    ! grep -qs slurm "/proc/$pid/cmdline" || echo "$pid"
  done
}

stop() {
  SLURM_CONF=$folder/slurm.conf timeout 5 scancel --quiet --signal=KILL --user="$(id -un)" 2> /dev/null || true
  # shellcheck disable=SC2046 # a number a word
  for signal in TERM KILL; do
    [[ -z $(running) ]] || kill -s "$signal" $(running) 2> /dev/null || true
    for _ in {1..50}; do
      [[ -n $(running) ]] || return 0
      sleep 0.1
    done
  done
}

# free_port: a port on which no process listens.
free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)); do
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || { echo "$port" && return; }
  done
}

start() {
  local name plugins log
  ((EUID == 0)) || { echo "slurm: its daemons need root" >&2 && exit 77; }
  for name in slurmctld slurmd srun scancel; do
    command -v "$name" > /dev/null || { echo "slurm: there is no $name (Debian's slurmctld, slurmd and slurm-client)" >&2 && exit 77; }
  done
  plugins=$(echo /usr/lib/*/slurm*/mpi_pmix.so)
  [[ -e ${plugins%% *} ]] || { echo "slurm: it has no plugin mpi_pmix (Debian's slurm-wlm-basic-plugins)" >&2 && exit 77; }
  mkdir -p "$folder"/{state,spool,node1,node2}
  cat > "$folder/slurm.conf" << END
ClusterName=dptrain
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$(free_port)
AuthType=auth/none
CredType=cred/none
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=15
NodeName=node1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(free_port) CPUs=$(nproc) State=UNKNOWN
NodeName=node2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(free_port) CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
  echo "PMIxCliTmpDirBase=$folder/spool" > "$folder/mpi.conf"
  export SLURM_CONF=$folder/slurm.conf
  trap stop ERR
  slurmctld -f "$SLURM_CONF" 2> "$folder/err"
  # Each node has its own name and files, since the plugin's file names don't contain the node.
  for name in node1 node2; do
    unshare --mount --uts sh -c 'hostname "$0" && mount --bind "$1/$0" "$1/spool" && exec slurmd -N "$0" -f "$1/slurm.conf"' "$name" "$folder" \
      2>> "$folder/err"
  done
  for _ in {1..150}; do
    [[ $(sinfo --noheader --states=idle --format=%D 2> /dev/null) != 2 ]] || { echo "$SLURM_CONF" && return; }
    sleep 0.1
  done
  for log in "$folder"/err "$folder"/*.log; do tail -n 3 "$log" >&2; done
  stop
  fail 69 "its nodes are not there after 15 s"
}

case $1 in
  start) start ;;
  stop) stop ;;
  *) fail 64 "unknown command '$1'" ;;
esac
