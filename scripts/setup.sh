#!/usr/bin/env bash
# Installs what dptrain needs to be built, on Debian and Ubuntu; does nothing where everything is there.
#
# Usage: scripts/setup.sh [--with-mpi] [--with-fashion-mnist] [--dev]
#   --with-mpi             also Open MPI, for training on several hosts
#   --with-fashion-mnist   also the Fashion-MNIST data set, 31 MB
#   --dev                  also clang-format, for the format check
#
# Exit codes: 0 everything is there, 64 usage, 69 it could not be installed.
set -euo pipefail

fail() {
  echo "setup: $2" >&2
  exit "$1"
}

packages=(build-essential cmake ninja-build ccache git libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev
          libdnnl-dev zlib1g-dev libgtest-dev)
while (($# > 0)); do
  case $1 in
    --with-mpi) packages+=(libopenmpi-dev openmpi-bin) ;;
    --with-fashion-mnist) packages+=(dataset-fashion-mnist) ;;
    --dev) packages+=(clang-format) ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown option '$1'; there are --with-mpi, --with-fashion-mnist and --dev" ;;
  esac
  shift
done

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  fail 69 "this system has no apt-get; install what these Debian packages hold, then use --no-setup with the other scripts: ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat '${db:Status-Abbrev}' "$package" 2> /dev/null || true)
  [[ $state == ?i* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are there"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null || fail 69 "installing needs root, and there is no sudo; as root run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet -o DPkg::Lock::Timeout=300 "$@" < /dev/null
}

echo "setup: installing ${missing[*]}"
apt update || fail 69 "apt-get update failed, so ${missing[*]} could not be installed; is there a network?"
apt install --yes --no-install-recommends "${missing[@]}" ||
  fail 69 "apt-get could not install ${missing[*]}; its own message stands above"
echo "setup: installed ${missing[*]}"
