#!/usr/bin/env bash
# A wrong command line of a script is refused at once, with exit code 64 and one sentence. --help explains the script. If something
# can't be installed, the message names it (exit code 69).
#
# Usage: tests/checks/check_usage.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_usage: needs the root folder of the tree}"
bad=0

# If a mistake isn't refused, nothing may be installed or built.
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
for tool in apt-get cmake ctest dpkg-query mpirun python3 rsync sudo; do
  printf '#!/bin/sh\nexit 99\n' > "$stubs/$tool"
  chmod +x "$stubs/$tool"
done
PATH=$stubs:$PATH

# refused SCRIPT ARGUMENT...: exits 64 and prints one line, which begins with the script's name.
refused() {
  local said status=0
  said=$("scripts/$1.sh" "${@:2}" 2>&1) || status=$?
  if ((status != 64)) || [[ $said != "$1: "* || $said == *$'\n'* ]]; then
    echo "scripts/$*: is to exit 64 with one sentence, but exited $status and said: $said"
    bad=1
  fi
}

refused setup --with-fashion
refused setup now
refused build --presett debug
refused build --preset
refused build --preset fast
refused build --preset=
refused build --jobs 0
refused build -D
refused build debug
refused free_memory now
refused quickstart --seeds
refused quickstart --seeds 1,,2
refused quickstart --seeds ''
refused quickstart again
refused test --preset
refused test --preset fast
refused sweep
refused sweep --config lenet_1cpu
refused sweep --config lenet_1cpu batch_size
refused sweep --config '' batch_size=1
refused sweep --config lenet_1cpu batch_size=1 -- --out runs/elsewhere
refused sweep batch_size=1,2
refused sweep --confg lenet_1cpu batch_size=1
refused setup_peers
refused setup_peers --now
refused setup_peers build-peers now
refused setup_peers ''
refused launch
refused launch -n 2
refused launch -n 2 --
refused launch -- dptrain
refused launch -n 0 -- dptrain
refused launch -n two -- dptrain
refused launch -n
refused launch -n -- dptrain
refused launch -n 2 dptrain
refused launch --hosts a,b -- dptrain
refused launch -n 2 -s two -- dptrain
refused launch -n 2 --max-restarts x -- dptrain
refused launch -n 2 --grace 0.5 -- dptrain
refused launch -n 2 --sync-dst-dir /work -- dptrain
refused launch -H a,b --sync-dst-dir work -- dptrain
refused launch -H me@a,b -- dptrain
refused launch -H a,b:0 -- dptrain
refused launch -H 'a, b' -- dptrain
refused launch -H , -- dptrain
refused launch -n 1 -H a,b -- dptrain
refused launch -n 5 -H a:2,b:2 -- dptrain
# If nothing can be installed, the last line names what is missing.
status=0
said=$(scripts/setup.sh 2>&1) || status=$?
if ((status != 69)) || [[ ${said##*$'\n'} != "setup: "*libdnnl-dev* ]]; then
  echo "scripts/setup.sh: is to exit 69 and name what it could not install, but exited $status and said: $said"
  bad=1
fi
for script in setup build quickstart test sweep setup_peers launch check_learning; do
  "scripts/$script.sh" --help | grep -q "^Usage: scripts/$script.sh" ||
    { echo "scripts/$script.sh --help does not print its usage"; bad=1; }
done
exit "$bad"
