#!/usr/bin/env bash
# Makes an archive of what scripts/gpu_check.sh needs on a machine that has a GPU but no network and not our packages. It holds the
# binary and the test programs, without debugging symbols, and the small libraries that a stock Ubuntu 24.04 lacks. The other machine
# must have cuDNN, cuBLAS and NVRTC; the data comes from its checkout of this repository, which must be of the same commit. Tests that
# mpirun starts are left out.
#
# Usage: scripts/gpu_bundle.sh [--architectures LIST] [--build DIR] [--out DIR]
#   --architectures   CUDA architectures to build for; 90a, Hopper, by default
#   --build DIR       bundle this finished build, and build nothing
#   --out DIR         the folder of the bundle; build-gpu-bundle by default; it is replaced
#
# Exit codes: 0 made, 64 usage, 66 the build is not finished, 69 a library is missing, 74 the bundle is over 50 MiB, otherwise that of
# the build.
set -euo pipefail

fail() {
  echo "gpu_bundle: $2" >&2
  exit "$1"
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
architectures=90a
build=
out=$root/build-gpu-bundle
while (($# > 0)); do
  case $1 in
    --architectures | --build | --out)
      if (($# < 2)) || [[ -z $2 || $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown argument '$1'; there are --architectures, --build and --out" ;;
  esac
  shift
done
if [[ -e $out && ! -e $out/VERSION ]]; then fail 64 "$out exists and is not a bundle; choose another folder with --out"; fi

if [[ -z $build ]]; then
  "$root/scripts/build.sh" -DDPTRAIN_CUDA=ON "-DDPTRAIN_CUDA_ARCHITECTURES=$architectures"
  build=$root/build
fi
shopt -s nullglob
programs=("$build"/tests/*_test)
if [[ ! -x $build/dptrain ]] || ((${#programs[@]} == 0)); then
  fail 66 "$build has no dptrain or no tests; finish it, or leave out --build"
fi
version=$("$build/dptrain" --version)
[[ $version =~ with:[^$'\n']*CUDA ]] || fail 66 "$build is built without CUDA: ${version%%$'\n'*}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/tests" "$folder/lib" "$folder/share/dptrain"
# An installed dptrain looks for its data here.
cp -r "$root/configs" "$root/datasets" "$folder/share/dptrain"
# Function names are kept, to show where a program hangs.
strip --strip-debug -o "$folder/bin/dptrain" "$build/dptrain"
for program in "${programs[@]}"; do
  name=$(basename "$program")
  [[ $name == processes_test ]] || strip --strip-debug -o "$folder/tests/$name" "$program"
done

# Libraries of the other machine: what every Ubuntu has, the driver's and NVIDIA's. All other libraries are bundled.
theirs='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libz|libcu.*|libnv.*|libnccl)\.so'
while read -r name path; do
  [[ ! $name =~ $theirs ]] || continue
  [[ -e $path ]] || fail 69 "$name, which the programs need, is not on this machine"
  cp -L "$path" "$folder/lib/$name"
done < <(ldd "$build/dptrain" "${programs[@]}" | sed -n 's/^[[:space:]]*\([^ ]*\) => \([^(]*[^ (]\).*/\1 \2/p' | sort -u)
rm -rf "$out"
mkdir -p "$out"
# The programs share most of their code, at large distances in the archive.
tar -C "$folder" -c . | xz -T1 --lzma2=preset=6,dict=256MiB > "$out/bundle.tar.xz"
printf '%s\n' "$version" > "$out/VERSION"
# gpu_check.sh compares these sums to see that the checkout on the other machine has the same sources.
(cd "$root" && git ls-files -z --cached --others --exclude-standard apps lib tests configs datasets | xargs -0 sha256sum) > "$out/SOURCES"

mib=$(du -sm --apparent-size "$out" | cut -f 1)
echo "gpu_bundle: $out, $mib MiB: $(ls "$folder/tests" | wc -l) test programs and $(ls "$folder/lib" | tr '\n' ' ')"
((mib <= 50)) || fail 74 "$out is larger than its limit of 50 MiB; build for one architecture"
echo "gpu_bundle: on the machine with the GPU, in a checkout of this commit: scripts/gpu_check.sh --build $(basename "$out") test"
