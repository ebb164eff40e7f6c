#!/usr/bin/env bash
# Installs the systems that dptrain is measured against, from PyPI, each in a virtual environment of its own: PyTorch with transformers
# for python3, and MXNet 1.9.1, which needs Python 3.8. If there is no Python 3.8, the script says so and leaves MXNet out. Does nothing
# if the environments exist. scripts/convert_pytorch.py also runs in the first of them.
#
# Usage: scripts/setup_peers.sh FOLDER      makes FOLDER/torch and FOLDER/mxnet
#
# Exit codes: 0 done, 64 usage, 69 they could not be installed.
set -euo pipefail

fail() {
  echo "setup_peers: $2" >&2
  exit "$1"
}

case ${1:-} in
  -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  -*) fail 64 "unknown option '$1'; give the folder for the environments" ;;
esac
(($# == 1)) || fail 64 "expected one folder for the environments, got $# arguments"
[[ -n $1 ]] || fail 64 "the folder's name is empty"
folder=$1

# environment NAME PYTHON MODULES PACKAGE...: makes FOLDER/NAME with these packages, unless the modules can be imported there
# already.
environment() {
  local name=$1 python=$2 modules=$3 target=$folder/$1
  if "$target/bin/python" -c "import $modules" 2> /dev/null; then
    echo "setup_peers: $target exists"
    return
  fi
  echo "setup_peers: installing ${*:4} into $target"
  "$python" -m venv "$target" || fail 69 "$python -m venv $target failed; Debian's package python3-venv has what it needs"
  "$target/bin/python" -m pip install --quiet --disable-pip-version-check "${@:4}" < /dev/null ||
    fail 69 "pip could not install ${*:4} for $name; is there a network?"
  "$target/bin/python" -c "import $modules" || fail 69 "$modules was installed into $target, but can't be imported"
}

# Prints the first Python 3.8 that runs. A python3.8 on PATH may be a pyenv shim that refuses to run.
python38() {
  local candidate
  for candidate in python3.8 "$(command -v pyenv > /dev/null && pyenv root || echo "$HOME/.pyenv")"/versions/3.8.*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 8))' 2> /dev/null; then
      echo "$candidate"
      return
    fi
  done
}

command -v python3 > /dev/null || fail 69 "python3 is missing"
mkdir -p "$folder" || fail 69 "could not create $folder"
environment torch python3 'torch, transformers' torch numpy transformers safetensors
old=$(python38)
if [[ -n $old ]]; then
  environment mxnet "$old" mxnet mxnet==1.9.1 'numpy<1.24'
else
  echo "setup_peers: MXNet is left out: it needs Python 3.8, which is neither on PATH nor among pyenv's versions"
fi
