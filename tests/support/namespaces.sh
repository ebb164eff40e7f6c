#!/usr/bin/env bash
# "Hosts" on one machine: network namespaces on a switch of their own, with addresses 10.77.0.1, 10.77.0.2, ... and names host1,
# host2, ... They touch no network of the machine.
#
# Usage: tests/support/namespaces.sh add NAME COUNT               make them; exit 77 where this machine can't, with the reason
#        tests/support/namespaces.sh delete NAME                  end what runs in them, and remove them
#        tests/support/namespaces.sh run NAME NUMBER COMMAND ...  run a command on one of them
#        tests/support/namespaces.sh agent NAME ADDRESS COMMAND   the same as ssh does it, for mpirun and rsync
#        tests/support/namespaces.sh slow NAME RATE               hold all links to a rate of tc's, such as 1gbit, both ways;
#                                                                 free: no longer
#        tests/support/namespaces.sh link NAME NUMBER up|down     plug the cable of one of them in, or out
#        tests/support/namespaces.sh lose NAME FROM TO            lose all that one of them sends to another, but nothing that
#                                                                 it gets from there
#        tests/support/namespaces.sh pids NAME                    the processes that run on them, a line each
# NAME is dptrain-PID, with the process that they belong to: add also removes those whose process is no more.
set -euo pipefail

fail() {
  echo "namespaces: $2" >&2
  exit "$1"
}

(($# >= 2)) || fail 64 "expected a command and a name"
name=$2
[[ $name =~ ^dptrain-[0-9]+$ ]] || fail 64 "expected a name such as dptrain-4711, got '$name'"

# of NAME: its namespaces, one per line.
of() { ip netns list | awk '{print $1}' | { grep -x -- "$1-\([0-9]*\|switch\)" || true; }; }

delete() {
  local space pids
  for space in $(of "$1"); do
    pids=$(ip netns pids "$space" 2> /dev/null) || true
    # shellcheck disable=SC2086 # a number a word
    [[ -z $pids ]] || kill -KILL $pids 2> /dev/null || true
    # Another process may be removing leftovers, too.
    ip netns delete "$space" 2> /dev/null || [[ ! -e /run/netns/$space ]]
  done
}

delete_left_behind() {
  local space owner
  for space in $(ip netns list | awk '{print $1}' | { grep -x 'dptrain-[0-9]*-switch' || true; }); do
    owner=${space#dptrain-}
    owner=${owner%-switch}
    kill -0 "$owner" 2> /dev/null || delete "dptrain-$owner"
  done
}

add() {
  local count=$1 i
  ((EUID == 0)) || { echo "namespaces: making network namespaces needs root" >&2; exit 77; }
  for tool in ip tc unshare; do
    command -v "$tool" > /dev/null || { echo "namespaces: there is no $tool (iproute2, util-linux)" >&2; exit 77; }
  done
  delete_left_behind
  ip netns add "$name-switch" 2> /dev/null || { echo "namespaces: this system makes no network namespaces" >&2; exit 77; }
  trap 'delete "$name"' ERR
  ip -n "$name-switch" link add switch type bridge
  ip -n "$name-switch" link set switch up
  for ((i = 1; i <= count; ++i)); do
    ip netns add "$name-$i"
    ip -n "$name-$i" link add eth0 type veth peer name "port$i" netns "$name-switch"
    ip -n "$name-switch" link set "port$i" master switch up
    ip -n "$name-$i" addr add "10.77.0.$i/24" dev eth0
    ip -n "$name-$i" link set lo up
    ip -n "$name-$i" link set eth0 up
  done
}

# Each host also has its own host name.
case $1 in
  add)
    [[ ${3:-} =~ ^[1-9]$ ]] || fail 64 "add needs a count from 1 to 9"
    add "$3"
    ;;
  delete) delete "$name" ;;
  run)
    (($# >= 4)) || fail 64 "run needs a number and a command"
    # shellcheck disable=SC2016 # the inner shell's
    exec ip netns exec "$name-$3" unshare --uts sh -c 'hostname "$0"; exec "$@"' "host$3" "${@:4}"
    ;;
  agent)
    (($# >= 4)) || fail 64 "agent needs an address and a command"
    number=${3##*.}
    exec ip netns exec "$name-$number" unshare --uts sh -c "hostname host$number; ${*:4}"
    ;;
  slow)
    (($# == 3)) || fail 64 "slow needs a rate"
    for space in $(of "$name"); do
      [[ $space != *-switch ]] || continue
      if [[ $3 == free ]]; then
        tc -n "$space" qdisc delete dev eth0 root 2> /dev/null || true
      else
        tc -n "$space" qdisc replace dev eth0 root tbf rate "$3" burst 128kb latency 50ms
      fi
    done
    ;;
  link)
    [[ ${4:-} == up || ${4:-} == down ]] || fail 64 "link needs a number, and up or down"
    ip -n "$name-switch" link set "port$3" "$4"
    ;;
  lose)
    (($# == 4)) || fail 64 "lose needs the numbers of two hosts"
    # A hardware address that no host has.
    ip -n "$name-$3" neighbour replace "10.77.0.$4" lladdr 02:00:00:00:00:99 dev eth0 nud permanent
    ;;
  pids)
    for space in $(of "$name"); do ip netns pids "$space"; done
    ;;
  *) fail 64 "unknown command '$1'" ;;
esac
