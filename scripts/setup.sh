#!/usr/bin/env bash
# Installs the packages that dptrain needs to be built, on Debian and Ubuntu; does nothing if all are installed. If the CUDA Toolkit is
# installed, also puts the headers of cuDNN's frontend, from PyPI, into .deps. The toolkit and cuDNN themselves you install yourself.
#
# Usage: scripts/setup.sh [--with-fashion-mnist] [--dev] [--with-slurm]
#   --with-fashion-mnist   also the Fashion-MNIST data set, 31 MB
#   --dev                  also what checks need: clang-format, and matplotlib, which a script draws with
#   --with-slurm           also Slurm and its daemons, which tests start themselves; Debian's packages enable services of it
#
# Exit codes: 0 everything is installed, 64 usage, 69 it could not be installed.
set -euo pipefail

fail() {
  echo "setup: $2" >&2
  exit "$1"
}

packages=(build-essential cmake ninja-build ccache git libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev
          libdnnl-dev zlib1g-dev libpng-dev libjpeg-dev libssl-dev libsentencepiece-dev libgtest-dev libopenmpi-dev
          openmpi-bin rsync iproute2)
while (($# > 0)); do
  case $1 in
    --with-fashion-mnist) packages+=(dataset-fashion-mnist) ;;
    --dev) packages+=(clang-format python3-matplotlib) ;;
    --with-slurm) packages+=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins) ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown option '$1'; there are --with-fashion-mnist, --dev and --with-slurm" ;;
  esac
  shift
done

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  fail 69 "this system has no apt-get; install the contents of these Debian packages, then use --no-setup with the other scripts: ${packages[*]}"
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
has_cuda() { command -v nvcc > /dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }
if has_cuda; then
  packages+=(python3-pip unzip)
fi

# The header-only library for cuDNN 9: one version in one file, verified by its checksum.
install_cudnn_frontend() {
  local version=1.32.0 platform=manylinux_2_28_x86_64
  local sum=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  local target=$root/.deps/cudnn-frontend-$version
  [[ ! -d $target/include ]] || return 0
  local work
  work=$(mktemp -d)
  echo "setup: fetching the headers of nvidia-cudnn-frontend $version"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
    --platform "$platform" --dest "$work" "nvidia-cudnn-frontend==$version" < /dev/null ||
    fail 69 "pip could not fetch nvidia-cudnn-frontend $version from PyPI; is there a network?"
  echo "$sum  $(echo "$work"/*.whl)" | sha256sum --check --quiet ||
    fail 69 "the file that PyPI gave for nvidia-cudnn-frontend $version isn't the one this version was tested with"
  mkdir -p "$root/.deps"
  unzip -q "$work"/*.whl 'include/*' -d "$work/unpacked"
  rm -rf "$target.part"
  mv "$work/unpacked" "$target.part"
  mv "$target.part" "$target"
  rm -rf "$work"
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat '${db:Status-Abbrev}' "$package" 2> /dev/null || true)
  [[ $state == ?i* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  if has_cuda; then install_cudnn_frontend; fi
  echo "setup: all ${#packages[@]} packages are installed"
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
  fail 69 "apt-get could not install ${missing[*]}; see its own message above"
echo "setup: installed ${missing[*]}"
if has_cuda; then install_cudnn_frontend; fi
