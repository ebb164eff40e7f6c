#!/usr/bin/env bash
# Runs the checks that need a GPU, on a machine that has one; no network is needed. Uses a build, or a bundle that
# scripts/gpu_bundle.sh made on another machine. Writes the results to gpu-<name of the GPU>.json and .md, row by row: a later call
# adds to them.
#
# Usage: scripts/gpu_check.sh [OPTION ...] STAGE ...
#        scripts/gpu_check.sh [--build DIR] run PROGRAM [ARGUMENT ...]
# Stages run one after the other:
#   test            every test program, those that use a GPU first. A skipped GPU test counts as failed, unless it needs more GPUs than
#                   there are. Two processes that share the GPU run the communicators' tests over NCCL
#   sanitize        compute-sanitizer's memcheck, racecheck and synccheck on the operators' GPU tests
#   bench CASE      a comparison with PyTorch, if the interpreter of --python has it; CASE is resnet18, lenet, pyramidnet-240,
#                   pyramidnet-768 (named by the batch) or bert
# Options:
#   --build DIR     a bundle or a build; by default build-gpu-bundle, or else build
#   --out DIR       the folder of the results; docs/results by default
#   --limit-s N     seconds for each stage, 540 by default; what isn't done by then counts as failed
#   --total-s N     seconds for all stages together; a later stage gets what earlier stages leave
#   --logs DIR      the folder for the full output of failed test programs, of which the results keep the first lines, and for
#                   timelines of some steps of the runs of bench
#   --cuda-only     of test, run only the tests that use a GPU
#   --jobs N        test programs at a time
#   --rounds N      rounds of a bench, 3 by default
#   --precision P   one precision of a bench; by default all that the case has
#   --python P      an interpreter that may have torch; python3 by default
# run starts a program with the libraries that the stages use, for example run dptrain devices. The program is taken from the build if
# the build has one of that name.
# The results are written after each stage.
#
# Exit codes: 0 passed, 1 a stage failed, 64 usage, 66 there is no build, or it was made of other sources, 69 a tool or a library is
# missing, 71 there is no GPU, 74 the bundle can't be unpacked.
set -euo pipefail

fail() {
  echo "gpu_check: $2" >&2
  exit "$1"
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=
out=
limit_s=540
total_s=
logs=
jobs=
rounds=3
precision=
cuda_only=()
python=python3
stages=()
command=()
while (($# > 0)); do
  case $1 in
    --build | --out | --limit-s | --total-s | --logs | --jobs | --rounds | --precision | --python)
      if (($# < 2)) || [[ -z $2 || $2 == -* ]]; then fail 64 "$1 needs a value"; fi
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift
      ;;
    --cuda-only) cuda_only=(--cuda-only) ;;
    test | sanitize) stages+=("$1") ;;
    bench)
      [[ ${2:-} =~ ^(resnet18|lenet|pyramidnet-240|pyramidnet-768|bert)$ ]] ||
        fail 64 "bench needs a case, one of resnet18, lenet, pyramidnet-240, pyramidnet-768 and bert, got '${2:-}'"
      stages+=("bench $2")
      shift
      ;;
    run)
      command=("${@:2}")
      ((${#command[@]} > 0)) || fail 64 "run needs a program"
      break
      ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail 64 "unknown argument '$1'; there are the stages test, sanitize and bench CASE, and --help" ;;
  esac
  shift
done
((${#stages[@]} + ${#command[@]} > 0)) || fail 64 "name what to check: test, sanitize, bench CASE; --help lists the cases"
for number in limit-s total-s jobs rounds; do
  value=${number//-/_}
  [[ -z ${!value} || ${!value} =~ ^[1-9][0-9]*$ ]] || fail 64 "--$number needs a number of at least 1, got '${!value}'"
done
[[ $precision =~ ^(fp32|tf32|bf16)?$ ]] || fail 64 "--precision needs one of fp32, tf32 and bf16, got '$precision'"
begun=$SECONDS
command -v python3 > /dev/null || fail 69 "python3 is missing; it runs the stages"

# A bundle has its binary in bin/, a build folder at its top. A bundle is packed; it is unpacked into $TMPDIR once.
if [[ -z $build ]]; then
  build=$root/build-gpu-bundle
  [[ -d $build ]] || build=$root/build
fi
if [[ -e $build/SOURCES ]]; then
  # Tests read files of the checkout, and results name the bundle's commit.
  changed=$(cd "$root" && sha256sum --check --quiet "$build/SOURCES" 2> /dev/null | head -n 1) || true
  [[ -z $changed ]] ||
    fail 66 "$build was made of other sources: ${changed%%:*} differs here; make it again with scripts/gpu_bundle.sh, or check out the commit of $build/VERSION"
fi
if [[ -e $build/bundle.tar.xz ]]; then
  unpacked=${TMPDIR:-/tmp}/dptrain-bundle-$(sha256sum "$build/bundle.tar.xz" | cut -c 1-16)
  if [[ ! -d $unpacked ]]; then
    part=$(mktemp -d "$unpacked.XXXXXX")
    said=$(python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$build/bundle.tar.xz" "$part" 2>&1) ||
      { rm -rf "$part"; fail 74 "$build/bundle.tar.xz can't be unpacked into $part: ${said##*$'\n'}"; }
    # If another process was first, its copy is used.
    mv -T "$part" "$unpacked" 2> /dev/null || rm -rf "$part"
  fi
  build=$unpacked
fi
binary=$build/dptrain
[[ ! -x $build/bin/dptrain ]] || binary=$build/bin/dptrain
[[ -x $binary ]] ||
  fail 66 "there is no dptrain in $build; bring a bundle (scripts/gpu_bundle.sh makes one), build here (scripts/build.sh), or name a build with --build"
build=$(cd "$build" && pwd)
binary=$(cd "$(dirname "$binary")" && pwd)/dptrain

# Lists the libraries that the loader doesn't find by itself, and the one that dptrain opens at run time if it isn't found.
missing_libraries() {
  { LD_LIBRARY_PATH=$1 ldd "$binary" "$build"/tests/*_test 2> /dev/null || true; } | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u
  { LD_LIBRARY_PATH=$1 "$binary" --version 2> /dev/null || true; } | sed -n 's/.*CUDA \([0-9]*\)\..*cuBLASLt (not found).*/libcublasLt.so.\1/p'
}
python_folders() {
  python3 -c 'import glob, site, sys
folders = [f for f in sys.path if f.endswith("-packages")] + site.getsitepackages() + [site.getusersitepackages()]
for folder in dict.fromkeys(folders):
    print(*sorted(glob.glob(folder + "/nvidia/*/lib")), sep="\n")' 2> /dev/null || true
}
path=$build/lib
[[ -d $path ]] || path=
path=$path${LD_LIBRARY_PATH:+${path:+:}$LD_LIBRARY_PATH}
missing=$(missing_libraries "$path")
if [[ -n $missing ]]; then
  mapfile -t folders < <(python_folders | sed '/^$/d'; printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda/lib)
  # The library that dptrain opens is known only after the loader has found the others, so this takes two rounds.
  for round in 1 2; do
    for library in $missing; do
      for folder in "${folders[@]}"; do
        [[ -e $folder/$library ]] || continue
        echo "gpu_check: $library is in $folder" >&2
        [[ :$path: == *":$folder:"* ]] || path=${path:+$path:}$folder
        break
      done
    done
    missing=$(missing_libraries "$path" | tr '\n' ' ')
  done
  [[ -z $missing ]] ||
    fail 69 "no ${missing% } in ${folders[*]}; cuDNN, cuBLAS, NVRTC and NCCL come with the CUDA Toolkit, cuDNN and NCCL, or as the Python packages nvidia-cudnn-cu13, nvidia-cublas, nvidia-cuda-nvrtc and nvidia-nccl-cu13"
fi
export DPTRAIN_SOURCE_DIR=$root DPTRAIN_BINARY=$binary
with_libraries=(env ${path:+"LD_LIBRARY_PATH=$path"})
if ((${#command[@]} > 0)); then
  for folder in bin tests .; do
    [[ ${command[0]} == */* || ! -x $build/$folder/${command[0]} || -d $build/$folder/${command[0]} ]] || command[0]=$build/$folder/${command[0]}
  done
  exec "${with_libraries[@]}" "${command[@]}"
fi

# The GPU, by the name that the binary gives it.
work=$(mktemp -d)
written=nothing
# merge: adds what the stages have found so far to the results.
merge() {
  local result
  for result in "$work"/*.json; do
    [[ -e $result ]] || continue
    written=$("${with_libraries[@]}" python3 "$root/scripts/gpu_results.py" --out "${out:-$root/docs/results}" --name "$gpu" \
      --version "$version" --driver "$driver" --cudnn "$cudnn" "$result")
    rm "$result"
  done
}
# A signal may come twice, for example from timeout, which sends it to this script and to all that it has started.
trap 'trap "" HUP INT TERM; merge; rm -rf "$work"' EXIT
devices=$("${with_libraries[@]}" "$binary" devices --json 2> "$work/errors") ||
  fail 71 "$binary can't list this machine's devices: $(tail -n 1 "$work/errors")"
field() { python3 -c 'import json, sys; d = json.load(sys.stdin); print('"$1"')' <<< "$devices"; }
gpu=$(field 'd["cuda"][0]["name"] if d["cuda"] else ""')
[[ -n $gpu ]] ||
  fail 71 "no GPU: $(field 'd["cuda_absence"]'); run this where nvidia-smi lists one, or try it with a build of the preset cuda-sim (--build build-cuda-sim --out DIR)"
simulated=false
[[ $gpu != "Simulated GPU" ]] || simulated=true
if [[ $simulated == true && -z $out ]]; then
  fail 64 "$binary has a simulated GPU, whose results don't belong in docs/results; name another folder with --out"
fi
driver=
if [[ $simulated == false ]] && command -v nvidia-smi > /dev/null; then
  # Without persistence mode, each process that is alone initializes the GPU again; this affects dptrain and PyTorch alike.
  if IFS=, read -r name driver persistence < <(nvidia-smi --query-gpu=name,driver_version,persistence_mode --format=csv,noheader 2> /dev/null) &&
    [[ -n $driver ]]; then
    gpu=$name driver=${driver# }${persistence:+, persistence mode${persistence,,}}
  else
    driver=
  fi
fi
if [[ $simulated == false ]]; then echo "gpu_check: $gpu"; else echo "gpu_check: the GPU is simulated, so bench tries only a few images"; fi

sanitizer=
for candidate in "$(command -v compute-sanitizer || true)" /usr/local/cuda/{bin,compute-sanitizer}/compute-sanitizer; do
  [[ -x $candidate ]] && sanitizer=$candidate && break
done
cudnn=$({ LD_LIBRARY_PATH=$path ldd "$binary" 2> /dev/null || true; } | sed -n 's/^[[:space:]]*libcudnn\.so[^ ]* => \([^ ]*\).*/\1/p')
version=$("${with_libraries[@]}" "$binary" --version)

# run_stage NAME RESULT: runs a stage, which writes what it found to RESULT.
run_stage() {
  local stage=$1 result=$2 limit_s=$limit_s
  if [[ -n $total_s ]]; then
    local left=$((total_s - SECONDS + begun))
    if ((left < 1)); then
      echo "gpu_check: no time is left of --total-s $total_s" >&2
      return 1
    fi
    ((left > limit_s)) || limit_s=$left
  fi
  case $stage in
    bench*)
      local trial=()
      [[ $simulated == false ]] || trial=(--samples 8 --batch 4 --rounds 1 --seconds 0.1 --peer-device cpu)
      python3 "$root/scripts/bench_gpu.py" "${stage#bench }" --binary "$binary" --result "$result" --library-path "$path" \
        --python "$python" --rounds "$rounds" --limit-s "$limit_s" ${precision:+--precision "$precision"} ${logs:+--logs "$logs"} \
        "${trial[@]}"
      ;;
    sanitize)
      # A missing sanitizer fails only this stage, so that the other stages go on.
      if [[ $simulated == true ]]; then
        echo "gpu_check: compute-sanitizer checks a GPU's machine code, which a simulated GPU doesn't have; leave out sanitize" >&2
        return 69
      elif [[ -z $sanitizer ]]; then
        echo "gpu_check: compute-sanitizer is neither on PATH nor in /usr/local/cuda; it comes with the CUDA Toolkit" >&2
        return 69
      fi
      "${with_libraries[@]}" python3 "$root/scripts/gpu_tests.py" sanitize --programs "$build/tests" --result "$result" \
        --limit-s "$limit_s" ${jobs:+--jobs "$jobs"} ${logs:+--logs "$logs"} --sanitizer "$sanitizer"
      ;;
    test)
      local shm_mb
      shm_mb=$(df --output=avail --block-size=MB /dev/shm 2> /dev/null | tail -n 1 | tr -dc 0-9)
      [[ -z $shm_mb || $shm_mb -ge 500 ]] ||
        echo "gpu_check: /dev/shm has $shm_mb MB left; two processes of NCCL on one GPU need about 200 MB" >&2
      "${with_libraries[@]}" python3 "$root/scripts/gpu_tests.py" test --programs "$build/tests" --result "$result" \
        --limit-s "$limit_s" ${jobs:+--jobs "$jobs"} ${logs:+--logs "$logs"} "${cuda_only[@]}"
      ;;
  esac
}

failed=0
for stage in "${stages[@]}"; do
  result=$work/${stage// /-}.json
  echo "$stage"
  status=0
  run_stage "$stage" "$result" || status=$?
  ((failed != 0)) || failed=$status
  merge
done
echo "gpu_check: $( ((failed == 0)) && echo passed || echo FAILED); wrote $written"
exit "$failed"
