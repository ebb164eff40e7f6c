#!/usr/bin/env bash
# Starts a command as the processes of one job, on this host or on several hosts. This is a thin wrapper of rsync and Open MPI's mpirun;
# it prints the command lines that it runs. Where srun starts jobs, no wrapper is needed.
#
# Usage: scripts/launch.sh [OPTION ...] -- dptrain --config F [ARGUMENT ...]
#   -n N                 the number of training processes; by default one per host
#   -s N                 also start N servers of a kvstore of type dist_*, and its scheduler, in turn on the hosts; adds
#                        --set strategy.servers=N to the command. By default 0: each training process has a server
#   -H HOSTS             the hosts: a,b or a:2,b:4 with the processes of each, or a file with one host per line, 'a' or 'a slots=4',
#                        and comments after a #; by default this host. mpirun reaches hosts by ssh, which must not ask for a password
#   --sync-dst-dir DIR   first copy the working folder, without .git, to this folder of each host (an absolute path), and work there
#   --max-restarts N     start the job again after a fault, at most N times; 0 by default. See Restarts
#   --grace S            after a failure of a process, or a signal that ends the job, Open MPI waits this many seconds before it sends
#                        SIGTERM to the other processes, and as long again before it kills them; 15 by default, as a checkpoint may take
#                        a while. A stop by a signal that goes well takes no longer than the current step and the checkpoint
#   --agent COMMAND      use this command instead of ssh
# Variables named DPTRAIN_*, NCCL_*, OMP_*, ONEDNN_* and DNNL_*, and LD_LIBRARY_PATH, are passed to all hosts; Open MPI passes on those
# named OMPI_*.
#
# Restarts: the job starts again, after some seconds, if a process was lost (exit code 75) or all processes were killed. If the run
# hadn't begun, the command starts as before. Otherwise it continues with --resume from the run's newest checkpoint, which all hosts
# must see. A restart that finds a host missing (exit code 69) is repeated, too, and counts as one of the N.
#
# Signals: Ctrl-C, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 ask all processes at once to stop after the current step and a
# checkpoint. A second signal ends the job at once.
#
# Exit codes:
#   64      usage
#   69      a tool or the program is missing, here or on a host; a host could not be reached or copied to; or no process of the job has
#           begun 15 s after all should have joined (DPTRAIN_JOIN_TIMEOUT, 60 s by default), because ssh hangs: mpirun is then ended
#   74      no temporary file can be written; or nobody reads the run's output any more, so that mpirun ends the run
#   others  the run's own, from fault.json, fault-<rank>.json or summary.json in its directory. If there is none, or the training hasn't
#           begun on this host, the one in the file that DPTRAIN_EXIT_FILE names to the run; if there is none either, mpirun's
#
# The run's directory is the one that a process of this host has written to the file DPTRAIN_RUN_FILE, or else the one of --out, or else
# runs/<name of the configuration>. If the run has failed and mpirun has nothing left to wait for here, mpirun is ended. If mpirun hangs
# after a fault, for example because a network is gone, or long after the end of training, it is killed.
set -euo pipefail

fail() {
  echo "launch: $2" >&2
  exit "$1"
}

# dptrain uses these words in the advice on how to resume the run.
DPTRAIN_LAUNCH=$(printf '%s\x1f' "$0" "$@")
export DPTRAIN_LAUNCH

processes=
servers=0
hosts=
sync_folder=
restarts=0
grace_s=15
agent=
command=()
while (($# > 0)); do
  case $1 in
    -n | -s | -H | --sync-dst-dir | --max-restarts | --grace | --agent)
      if (($# < 2)) || [[ -z $2 || $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      case $1 in
        -n)
          [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || fail 64 "-n needs a number of at least 1, got '$2'"
          processes=$2
          ;;
        -s)
          [[ $2 =~ ^[0-9]{1,4}$ ]] || fail 64 "-s needs a number of servers, got '$2'"
          servers=$((10#$2))
          ;;
        -H) hosts=$2 ;;
        --sync-dst-dir)
          [[ $2 == /* ]] || fail 64 "--sync-dst-dir: expected an absolute path, got '$2'; it would be another folder for rsync than for mpirun"
          sync_folder=$2
          ;;
        --max-restarts)
          [[ $2 =~ ^[0-9]{1,6}$ ]] || fail 64 "--max-restarts needs a number, got '$2'"
          restarts=$((10#$2))
          ;;
        --grace)
          [[ $2 =~ ^[0-9]{1,4}$ ]] || fail 64 "--grace needs whole seconds, got '$2'"
          grace_s=$((10#$2))
          ;;
        --agent) agent=$2 ;;
      esac
      shift
      ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --)
      command=("${@:2}")
      break
      ;;
    *) fail 64 "unknown argument '$1'; there are -n, -s, -H, --sync-dst-dir, --max-restarts, --grace and --agent, and the command goes after --" ;;
  esac
  shift
done
((${#command[@]} > 0)) || fail 64 "there is no command; write it after --, for instance -- dptrain --config lenet_ddp_2cpu"
if [[ -z $hosts ]]; then
  [[ -n $processes ]] || fail 64 "-n or -H is missing; write for instance -n 2"
  [[ -z $sync_folder ]] || fail 64 "--sync-dst-dir needs hosts; name them with -H"
fi

# The names of the hosts and the process counts, in parallel arrays.
names=()
counts=()
if [[ -n $hosts ]]; then
  if [[ -f $hosts ]]; then
    mapfile -t lines < <(sed -e 's/#.*//; s/^[[:space:]]*//; s/[[:space:]]*$//; /^$/d' \
      -e 's/[[:space:]]\+max[_-]slots[[:space:]]*=[[:space:]]*[0-9]\+//; s/[[:space:]]\+slots[[:space:]]*=[[:space:]]*/:/' "$hosts")
  else
    IFS=, read -r -a lines <<< "$hosts"
  fi
  [[ -f $hosts || $hosts != */* ]] || fail 64 "-H: there is no file '$hosts'"
  for line in "${lines[@]}"; do
    [[ $line != *@* ]] || fail 64 "-H: expected a host without a user's name, got '$line'; set User for the host in ~/.ssh/config"
    [[ $line =~ ^[A-Za-z0-9._-]+(:[1-9][0-9]{0,4})?$ ]] || fail 64 "-H: expected a host, or host:processes, got '$line'"
    names+=("${line%%:*}")
    count=${line#"${line%%:*}"}
    counts+=("${count#:}")
  done
  ((${#names[@]} > 0)) || fail 64 "-H $hosts names no host"
  # Hosts without a number share the remaining processes evenly; the first hosts get more.
  given=0
  open=0
  for count in "${counts[@]}"; do
    if [[ -n $count ]]; then given=$((given + count)); else open=$((open + 1)); fi
  done
  processes=${processes:-$((given + open))}
  left=$((processes - given))
  ((left == 0 || (left > 0 && open > 0))) || fail 64 "-n $processes, but the hosts of -H have $given processes"
  ((left >= open)) || fail 64 "-n $processes is too few for the ${#names[@]} hosts of -H; each needs at least one process"
  for i in "${!counts[@]}"; do
    [[ -z ${counts[i]} ]] || continue
    counts[i]=$(((left + open - 1) / open))
    left=$((left - counts[i]))
    open=$((open - 1))
  done
fi

command -v mpirun > /dev/null || fail 69 "mpirun is missing; scripts/setup.sh installs Open MPI"
[[ $(mpirun --version 2> /dev/null) == *"Open MPI"* ]] || fail 69 "the mpirun on PATH isn't Open MPI's"
[[ -z $sync_folder ]] || command -v rsync > /dev/null || fail 69 "rsync is missing; install it here and on the hosts"
# In a checkout, dptrain needn't be on PATH.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${command[0]} == dptrain && -x $root/build/dptrain ]] && ! command -v dptrain > /dev/null; then
  command[0]=$root/build/dptrain
  [[ $PWD != "$root" ]] || command[0]=build/dptrain
fi

# is_among_hosts: whether this host is known to be one of the hosts, so that a process starts here.
is_among_hosts() {
  local name
  ((${#names[@]} > 0)) || return 0
  for name in "${names[@]}"; do
    ! is_this_host "$name" || return 0
  done
  return 1
}

# is_this_host NAME: whether it is a name or an address of this host.
is_this_host() {
  local own
  for own in localhost 127.0.0.1 "$(hostname)" "$(hostname -s)" $(hostname -I); do
    [[ $1 != "$own" ]] || return 0
  done 2> /dev/null
  return 1
}

say() {
  {
    printf '+'
    printf ' %q' "$@"
    printf '\n'
  } >&2
}

child=
if ! { scratch=$(mktemp -d) && echo 0 > "$scratch/stops"; } 2> /dev/null; then
  fail 74 "can't write a file in the folder for temporary files, ${TMPDIR:-/tmp}; check that it exists and has room, or set TMPDIR to another folder"
fi
# If a signal that isn't passed on ends this script, watch_over still needs the folder.
trap '[[ -n $child ]] || rm -rf "$scratch"' EXIT
# A process of this host writes its exit code to the first file, because mpirun reports a code only when all its processes are
# done. It writes the directory in which its training has begun to the second file.
export DPTRAIN_EXIT_FILE=$scratch/exit DPTRAIN_RUN_FILE=$scratch/run
# A process names these hosts in its message if not all processes have joined.
unset DPTRAIN_HOSTS
((${#names[@]} == 0)) || { printf -v DPTRAIN_HOSTS ', %s' "${names[@]}" && export DPTRAIN_HOSTS=${DPTRAIN_HOSTS#, }; }

# Counts the requests to stop and passes them on. mpirun has its own session, so that a terminal's Ctrl-C doesn't reach it as
# well; it would hold back such a signal for the grace time. mpirun passes SIGUSR1 and SIGUSR2 to all processes at once, and
# dptrain treats them like SIGINT and SIGTERM.
is_mpirun=false
stops=0
stopped_by=0
first_stop_us=0
pass_on() {
  local name=$1 now_us=${EPOCHREALTIME//[.,]/}
  # A terminal that closes sends SIGHUP, maybe twice; the second one isn't a second request.
  [[ $name != HUP ]] || ((stops == 0)) || return 0
  # A copy of one signal isn't a second request either: whoever runs this script may pass on a signal that the terminal, or a
  # kill of the group, has already sent here. dptrain counts signals within 300 ms as one.
  ((stops == 0 || now_us - first_stop_us > 300000)) || return 0
  stops=$((stops + 1))
  ((stops > 1)) || { stopped_by=$2 && first_stop_us=$now_us; }
  echo "$stops" > "$scratch/stops"
  [[ -n $child ]] || return 0
  [[ $is_mpirun == false ]] || name=$3
  kill -s "$name" "$child" 2> /dev/null || true
}
trap "pass_on INT 130 USR1" INT USR1
trap "pass_on TERM 143 USR2" TERM USR2 QUIT
trap "pass_on HUP 143 USR2" HUP

# run COMMAND ...: returns the command's exit code, even if a signal has interrupted the wait.
run() {
  local status=0 watcher=
  say "$@"
  [[ $1 != mpirun ]] || is_mpirun=true
  setsid "$@" < /dev/null &
  child=$!
  # A signal that came since the last check had no process to go to.
  ((stops == 0)) || kill -s TERM "$child" 2> /dev/null || true
  if [[ $is_mpirun == true ]]; then
    watch_over "$child" &
    watcher=$!
  fi
  wait "$child" || status=$?
  while kill -0 "$child" 2> /dev/null; do
    status=0
    wait "$child" || status=$?
  done
  # The agents that were to reach the hosts don't end by themselves.
  [[ ! -e $scratch/unreached ]] || pkill -KILL -s "$child" || true
  child=
  is_mpirun=false
  [[ -z $watcher ]] || { kill -KILL "$watcher" && wait "$watcher"; } 2> /dev/null || true
  return "$status"
}

for name in "${names[@]}"; do
  [[ -n $sync_folder ]] || break
  copied=true
  run rsync --archive --compress --protect-args --exclude=/.git ${agent:+"--rsh=$agent"} ./ "$name:$sync_folder/" || copied=false
  ((stops == 0)) || exit "$stopped_by"
  [[ $copied == true ]] ||
    fail 69 "could not copy the working folder to $sync_folder on $name; see rsync's own message above"
done

# has_program: whether the command's program exists where it is to run. For other hosts this can't be known here.
has_program() {
  local program=${command[0]}
  [[ $program != -* ]] && is_among_hosts || return 0
  (cd "${sync_folder:-.}" 2> /dev/null && { type -P -- "$program" > /dev/null || [[ -f $program && -x $program ]]; })
}
has_program ||
  fail 69 "there is no program '${command[0]}' here; write its path, for instance build/dptrain, or put it on PATH"

# lacking_host: prints the first host that can be reached and doesn't have the program. mpirun reports that among many words, or
# not at all if it is ended before.
lacking_host() {
  local name program folder status
  printf -v program %q "${command[0]}"
  printf -v folder %q "${sync_folder:-$PWD}"
  for name in "${names[@]}"; do
    # The code 3 differs from the codes of an agent that doesn't reach the host.
    status=0
    # shellcheck disable=SC2086 # a command with its arguments
    timeout 10 ${agent:-ssh} "$name" "cd $folder 2> /dev/null; command -v $program > /dev/null || exit 3" < /dev/null &> /dev/null || status=$?
    ((status != 3)) || { echo "$name"; return; }
  done
  return 1
}

# reaches_hosts: whether each of the hosts can be reached by the agent; this one needs none.
reaches_hosts() {
  local name
  for name in "${names[@]}"; do
    # shellcheck disable=SC2086 # a command with its arguments
    is_this_host "$name" || timeout 10 ${agent:-ssh} "$name" true < /dev/null &> /dev/null || return 1
  done
}

# With binding, a process that drives several devices would get one core. More processes than cores are the user's choice.
launcher=(mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout "$grace_s")
((EUID != 0)) || launcher+=(--allow-run-as-root)
[[ -z $agent ]] || launcher+=(--mca plm_rsh_agent "$agent")
list=
for i in "${!names[@]}"; do list+=,${names[i]}:${counts[i]}; done
[[ -z $list ]] || launcher+=(-H "${list#,}")
[[ -z $sync_folder ]] || launcher+=(--wdir "$sync_folder")
exports=()
while read -r variable; do
  [[ ! $variable =~ ^(DPTRAIN|NCCL|OMP|ONEDNN|DNNL)_|^LD_LIBRARY_PATH$ ]] || exports+=(-x "$variable")
done < <(compgen -e)
launcher+=("${exports[@]}" -n "$processes")
if ((servers > 0)); then
  [[ " ${command[*]} " != *" : "* ]] || fail 64 "-s starts one program in all processes; leave out the ':' and the programs after it"
  command+=(--set "strategy.servers=$servers")
fi

# Sets `contexts` to the arguments for the servers and their scheduler, which follow the command of the training processes.
server_contexts() {
  contexts=()
  ((servers > 0)) || return 0
  local i
  for ((i = 0; i <= servers; ++i)); do
    contexts+=(:)
    ((${#names[@]} == 0)) || contexts+=(-H "${names[i % ${#names[@]}]}")
    [[ -z $sync_folder ]] || contexts+=(--wdir "$sync_folder")
    contexts+=("${exports[@]}" -n 1 "${command[@]}")
  done
}

# The run's directory as the command names it; the run may name another, because a configuration may have a name of its own.
directory=
for ((i = 0; i < ${#command[@]}; ++i)); do
  case ${command[i]} in
    --out) directory=${command[i + 1]:-} ;;
    --out=*) directory=${command[i]#--out=} ;;
    --config) [[ -n $directory ]] || config=${command[i + 1]:-} ;;
    --config=*) [[ -n $directory ]] || config=${command[i]#--config=} ;;
  esac
done
if [[ -z $directory && -n ${config:-} ]]; then
  config=${config##*/}
  directory=runs/${config%.yaml}
fi
if [[ -n $sync_folder && $directory != /* ]]; then
  ((restarts == 0 || ${#names[@]} < 2)) ||
    echo "launch: --max-restarts continues from a checkpoint that every host must see: put $sync_folder or --out into a folder that all hosts share" >&2
  directory=$sync_folder/$directory
fi
# The directory as the run itself has named it.
learn_directory() { [[ ! -s $DPTRAIN_RUN_FILE ]] || directory=$(< "$DPTRAIN_RUN_FILE"); }

# has_begun: whether the run has begun since the first start. If all processes are on other hosts, a new configuration file
# shows it.
has_begun() { [[ -s $DPTRAIN_RUN_FILE || $(config_there) != "$config_before" ]]; }
# is_yet_to_begin: whether the run surely hasn't begun: a process was here, and would have said so.
is_yet_to_begin() { [[ ${#names[@]} -eq 0 || -e $scratch/was_here ]] && ! has_begun; }
config_there() { stat -c '%i %y' "$directory/config.yaml" 2> /dev/null || true; }
config_before=$(config_there)

# said FILE ...: prints the exit code that the run has written to one of these files since this start, if any.
said() {
  local file code
  for file in "$@"; do
    [[ $file -nt $scratch/start ]] || continue
    code=$(tr -d '\n' < "$file" | sed -nE 's/.*"exit": *([0-9]{1,3})[^0-9].*/\1/p')
    [[ -z $code ]] || { echo "$code"; return; }
  done
}

# own_code STATUS: prints the exit code that the run has written anywhere, or else STATUS. If a host is gone, a process there
# may have been the first to fail.
own_code() {
  local code=
  # If a process of this host has ended before its training began, its code is surely from this job; the directory may hold
  # another job's.
  [[ -s $DPTRAIN_EXIT_FILE && ! -s $DPTRAIN_RUN_FILE ]] ||
    code=$(said "$directory"/fault.json "$directory"/fault-*.json "$directory"/summary.json)
  [[ -n $code || ! -s $DPTRAIN_EXIT_FILE ]] || code=$(head -n 1 "$DPTRAIN_EXIT_FILE")
  echo "${code:-${1:-}}"
}

# say_cause CODE: prints the cause of the failure again. The processes' own lines are far above, before mpirun's many words, or
# were not shown because mpirun was asleep.
say_cause() {
  local cause='' file
  [[ ! -s $DPTRAIN_EXIT_FILE ]] || cause=$(sed -n 2p "$DPTRAIN_EXIT_FILE")
  for file in "$directory"/fault.json "$directory"/fault-*.json; do
    [[ -z $cause && $file -nt $scratch/start ]] || continue
    cause=$(sed -nE '/^ *"cause": "/{s///; s/",?$//; s/\\"/"/g; p; q}' "$file")
  done
  [[ -z $cause ]] || echo "launch: the job ended with exit code $1: $cause" >&2
}

# is_unread: whether the reader of this script's output is gone.
is_unread() { [[ -p /dev/stdout ]] && ! (trap '' PIPE && echo) 2> /dev/null; }

# is_own: whether the directory is this job's, as far as one can know. A process on this host says so when its training begins;
# before that, another job's run may be in the directory, and end.
is_own() { [[ -s $DPTRAIN_RUN_FILE || ! -e $scratch/was_here ]]; }

# has_failed: whether the run has written what it failed with.
has_failed() { [[ -s $DPTRAIN_EXIT_FILE ]] || { is_own && [[ -n $(said "$directory"/fault.json "$directory"/fault-*.json) ]]; }; }

# is_done: whether the training has finished.
is_done() { is_own && [[ -n $(said "$directory"/summary.json) ]]; }

# has_processes PID: whether this mpirun has processes of the job on this host. A process that has ended has no environment any
# more.
has_processes() {
  local process
  for process in $(pgrep -P "$1"); do
    ! grep -qsz '^OMPI_COMM_WORLD_RANK=' "/proc/$process/environ" || return 0
  done
  return 1
}

# has_agents PID: whether this mpirun still waits for an agent to reach a host; an agent ends when it has. An srun as agent
# stays, so it doesn't count.
has_agents() {
  local process
  for process in $(pgrep -P "$1"); do
    ! grep -qs srun "/proc/$process/comm" || continue
    ! grep -qs '^OMPI_COMM_WORLD_RANK=' "/proc/$process/environ" || continue
    ! grep -qsa orted "/proc/$process/cmdline" || return 0
  done
  return 1
}

# Processes that haven't begun after this many seconds never will.
join_s=${DPTRAIN_JOIN_TIMEOUT:-60}
[[ $join_s =~ ^[0-9]{1,5}(\.[0-9]*)?$ ]] || join_s=60
join_s=$((10#${join_s%%.*} + 15))

# leave_mpirun PID: ends mpirun at once. After a second SIGTERM within 5 s, mpirun no longer waits for its processes.
leave_mpirun() {
  for _ in 1 2 3 4; do
    kill -s TERM "$1" 2> /dev/null || return 0
    sleep 0.2 &> /dev/null
  done
  kill -s KILL "$1" 2> /dev/null || true
}

# is_alive PID: whether the process still runs. A zombie doesn't count: if its parent is dead, the stand-in may never collect
# it.
is_alive() {
  local state=Z
  read -r _ _ state _ 2> /dev/null < "/proc/$1/stat" || true
  [[ $state != [ZX] ]]
}

# watch_over PID: ends an mpirun that has nothing left to wait for. Once the run has stopped or failed, its processes end by
# themselves. But after the first of them has ended, mpirun sleeps for twice the grace time, and so do its daemons on the other
# hosts, one after the other. The daemons go on for a while when mpirun is gone, and end what is left of the job. If mpirun is
# still there long after a failure, it hangs. If this script is killed, nobody waits for the job any more, so the job is asked
# to stop with a checkpoint.
watch_over() {
  local stops=0 rounds=0 term_at='' end='' parent='' is_orphaned=false has_begun_here=false
  local join_end=$((SECONDS + join_s))
  # A signal to the script's whole group must not end this watcher.
  trap '' HUP INT TERM
  while is_alive "$1"; do
    read -r _ _ _ parent _ < "/proc/$BASHPID/stat"
    if [[ $is_orphaned == false && $parent != "$$" ]]; then
      is_orphaned=true
      echo 1 > "$scratch/stops"
      kill -s USR2 "$1" 2> /dev/null || true
    fi
    # The file may be empty while it is being written.
    read -r stops < "$scratch/stops" || true
    learn_directory
    [[ $has_begun_here == true ]] || ! has_processes "$1" || { has_begun_here=true && : > "$scratch/was_here"; }
    if ((SECONDS >= join_end)) && [[ $has_begun_here == false ]] && { has_agents "$1" || is_among_hosts; }; then
      : > "$scratch/unreached"
      leave_mpirun "$1"
    elif ((stops > 1)); then
      sleep 1 &> /dev/null
      # A process that is still here by now can't end by itself.
      pkill -KILL -P "$1" || true
      leave_mpirun "$1"
    elif ((stops > 0)) && is_done; then
      # Its processes are about to end.
      ((++rounds < 3)) || leave_mpirun "$1"
    elif has_failed && ! has_processes "$1"; then
      ((++rounds < 3)) || leave_mpirun "$1"
    elif is_done && ! has_processes "$1"; then
      # mpirun may have lost a process after the end of training, or received a signal itself. Processes of other hosts end
      # meanwhile.
      ((++rounds < 10)) || leave_mpirun "$1"
    elif ((stops > 0)); then
      : "${term_at:=$((SECONDS + grace_s))}"
      ((SECONDS < term_at)) || { kill -s TERM "$1" && term_at=$((SECONDS + 3600)); } 2> /dev/null || true
    fi
    if [[ -z $end ]]; then
      if has_failed; then
        end=$((SECONDS + 2 * grace_s + 20))
      elif is_done; then
        # Once the other processes have ended, nobody watches over one that is stopped.
        end=$((SECONDS + join_s))
      fi
    elif ((SECONDS > end)); then
      echo "launch: mpirun hangs; it is killed, with the processes that it has left on this host" >&2
      pkill -KILL -P "$1" || true
      kill -KILL "$1" 2> /dev/null || true
    fi
    sleep 0.5 &> /dev/null
  done
  [[ $is_orphaned == false ]] || rm -rf "$scratch"
}

# Sets `resumed` to the command of a restart. Until the run has begun it is the command as given, because an earlier run may
# still be in its directory. After that, it continues from the run's own newest checkpoint; without a checkpoint, it starts
# where the run was to begin, and overwrites what is left of it. Faults to be rehearsed are left out. mpirun separates programs
# with ':'.
resumed_command() {
  resumed=("${command[@]}")
  ! is_yet_to_begin || return 0
  local i argument has_own=false place=() from=(--resume)
  ! compgen -G "$directory/checkpoints/step-*[0-9]/manifest.json" > /dev/null || has_own=true
  # If this host doesn't have the directory, another host may still have a checkpoint.
  [[ ! -d $directory ]] || place=(--overwrite)
  resumed=()
  for ((i = 0; i <= ${#command[@]}; ++i)); do
    argument=${command[i]:-}
    if ((i == ${#command[@]})) || [[ $argument == : ]]; then
      resumed+=("${from[@]}")
      from=(--resume)
      ((i == ${#command[@]})) || resumed+=(:)
    elif [[ $argument == --resume && ${command[i + 1]:--} != -* && ${command[i + 1]} != : ]]; then
      i=$((i + 1))
      [[ $has_own == true ]] || from=(--resume "${command[i]}" "${place[@]}")
    elif [[ $argument == --resume=* ]]; then
      [[ $has_own == true ]] || from=("$argument" "${place[@]}")
    elif [[ $argument == --fault ]]; then
      i=$((i + 1))
    elif [[ $argument != --overwrite && $argument != --resume && $argument != --fault=* ]]; then
      resumed+=("$argument")
    fi
  done
}

# is_worth_restart CODE OF_MPIRUN: whether to start again. True if a process was lost, and if all processes or mpirun were
# killed, so that none could report it. On a restart, also true if a host is missing, which may come back.
is_worth_restart() {
  (($1 != 75)) || return 0
  # Nobody asked this script for the stop, so it was mpirun's: it asks the other processes to stop when it has lost one of them,
  # or a host (205).
  [[ ! $1 =~ ^(130|143)$ || ! $2 =~ ^(205|13[245679])$ ]] || return 0
  (($1 != 69 || restart == 0)) || return 0
  # These are SIGILL, ABRT, BUS, FPE, KILL and SEGV; other signals ask for an end.
  [[ $1 =~ ^13[245679]$ ]] && has_begun
}

pause_s=3
first_command=("${command[@]}")
for ((restart = 0; ; ++restart)); do
  : > "$scratch/start"
  rm -f "$DPTRAIN_EXIT_FILE" "$scratch/unreached"
  echo "$stops" > "$scratch/stops"
  status=0
  ((stops == 0)) || exit "$stopped_by"
  server_contexts
  run "${launcher[@]}" "${command[@]}" "${contexts[@]}" || status=$?
  ((stops < 2)) || exit "$stopped_by"
  learn_directory
  of_mpirun=$status
  within=
  [[ ! -e $scratch/unreached ]] || { status=255 && within=" within $join_s s"; }
  # If mpirun was killed, its processes notice and write their codes within a second or two.
  for ((i = 0; i < 50 && status > 128 && status < 255 && stops == 0; ++i)); do
    [[ -z $(own_code) ]] || break
    sleep 0.1 &> /dev/null
    learn_directory
  done
  status=$(own_code "$status")
  # 255 is ssh's own code; no process of a job ends with it. ssh's message is far above, before mpirun's many words. With 1
  # mpirun ends if another agent fails, and with 243 if there is no such agent; but a program may end with 1, too.
  [[ -z $hosts || ! $status =~ ^(1|243)$ || -n $(own_code) ]] || reaches_hosts || status=255
  if ((status == 255)) && [[ -n $hosts ]]; then
    status=69
    echo "launch: mpirun could not reach all of the hosts ${names[*]}$within; check that '${agent:-ssh} HOST true' works for each, without a password" >&2
  elif ((status != 0 && stops == 0)) && [[ $status == 143 || -z $(own_code) ]] && lacking=$(lacking_host); then
    # mpirun has asked the other processes to stop.
    status=69
    echo "launch: there is no program '${command[0]}' on $lacking; write a path that all hosts have, or copy it there with --sync-dst-dir" >&2
  elif ((status != 0 && stops == 0)) && [[ $status -gt 128 || -z $(own_code) ]] && is_unread; then
    # Nobody has asked mpirun to stop: it ends the run, or crashes, because it can't write.
    status=74
    echo "launch: nobody reads the run's output any more, so mpirun has ended the run; --resume continues from the newest checkpoint" >&2
  elif ((status != 0)); then
    say_cause "$status"
    ((status != 78 || servers == 0)) ||
      echo "launch: -s $servers sets strategy.servers, which only a kvstore between processes has, for example strategy: {name: kvstore, type: dist_sync}" >&2
  fi
  if ((restart == restarts || stops > 0)) || ! is_worth_restart "$status" "$of_mpirun"; then exit "$status"; fi
  command=("${first_command[@]}")
  if [[ " ${command[*]} " == *" --overwrite "* ]] && ! has_begun && ! is_yet_to_begin; then
    echo "launch: not starting again, because --overwrite might remove the run's files: no process on this host could tell whether the run has begun" >&2
    exit "$status"
  fi
  resumed_command
  command=("${resumed[@]}")
  # What is left of the job ends during the pause. A missing host takes longer to come back.
  lost='a process was lost'
  if ((status == 69)); then lost='not all processes have joined'; fi
  echo "launch: $lost; starting again in $pause_s s, restart $((restart + 1)) of $restarts" >&2
  sleep "$pause_s" &> /dev/null &
  wait "$!" || true
  if ((status == 69)); then pause_s=$((pause_s < 30 ? 2 * pause_s : 60)); else pause_s=3; fi
done
