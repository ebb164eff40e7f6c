#!/usr/bin/env bash
# What scripts/gpu_check.sh says and writes, on any machine: its build is a stub that has a GPU or none, and one test program.
#
# Usage: tests/checks/check_gpu_scripts.sh ROOT
# Prints a sentence for each violation; exits 1 if there is one, 77 without python3.
set -euo pipefail
cd "${1:?check_gpu_scripts: needs the root folder of the tree}"
bad=0
command -v python3 > /dev/null || { echo "python3, which runs the stages on a machine with a GPU, is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/build/tests" "$folder/tools"
export GPUS='[]' RESULT=COMPLETED ERRORS=0
cat > "$folder/build/dptrain" << 'END'
#!/bin/sh
if [ "$1" = --version ]; then echo 'dptrain 0.0.0 (abc)'; echo 'with: CUDA 13.0'; exit; fi
echo "{\"cuda\": $GPUS, \"cuda_absence\": \"there is no driver\"}"
END
# A test on the GPU that passes or is skipped, and one on the CPU that is skipped.
cat > "$folder/build/tests/ops_test" << 'END'
#!/bin/sh
case "$*" in
  *--gtest_list_tests*--gtest_filter=Long*) exit ;;
  *--gtest_list_tests*) printf 'Add.\n  Adds/cuda_f32\n  Adds/cpu_f32\n'; exit ;;
esac
[ "$GTEST_SHARD_INDEX" = 0 ] || exit 0
printf '[ RUN      ] Add.Adds/cuda_f32\na.h:1: Skipped\nno row cuda_f32: why\n[  SKIPPED ] Add.Adds/cuda_f32\n'
for argument; do
  case $argument in --gtest_output=json:*) report=${argument#--gtest_output=json:} ;; esac
done
cat > "$report" << REPORT
{"testsuites": [{"testsuite": [{"classname": "Add", "name": "Adds/cuda_f32", "result": "$RESULT"},
                               {"classname": "Add", "name": "Adds/cpu_f32", "result": "SKIPPED"}]}]}
REPORT
END
cat > "$folder/tools/compute-sanitizer" << 'END'
#!/bin/sh
while [ "${1##*_test}" = "$1" ] || [ "${1##*/}" = "$1" ]; do shift; done
"$@"
echo "========= ERROR SUMMARY: $ERRORS errors"
END
printf '#!/bin/sh\necho "NVIDIA Test 9, 580.1"\n' > "$folder/tools/nvidia-smi"
chmod +x "$folder"/build/dptrain "$folder"/build/tests/ops_test "$folder"/tools/*
PATH=$folder/tools:$PATH
results=$folder/results/gpu-nvidia-test-9

# expect CODE SENTENCE SCRIPT ARGUMENT...: exits with the code and says the sentence somewhere.
expect() {
  local code=$1 sentence=$2 said status=0
  said=$("scripts/$3.sh" "${@:4}" 2>&1) || status=$?
  if ((status != code)) || [[ $said != *"$sentence"* ]]; then
    echo "scripts/${*:3}: is to exit $code and say '$sentence', but exited $status and said: $said"
    bad=1
  fi
}
check() { expect "$1" "$2" gpu_check --build "$folder/build" "${@:3}"; }
written() { grep -qF "$1" "$results.md" || { echo "gpu_check: its results don't say: $1"; bad=1; }; }

expect 64 "name what to check" gpu_check
expect 64 "bench needs a model" gpu_check bench
expect 64 "unknown argument 'tset'" gpu_check tset
expect 64 "--limit-s needs a number" gpu_check --limit-s 9m test
expect 64 "run needs a program" gpu_check run
expect 66 "there is no dptrain in $folder" gpu_check --build "$folder" test
expect 64 "unknown argument 'now'" gpu_bundle now
expect 64 "is there and no bundle" gpu_bundle --out "$folder/build"
expect 66 "has no dptrain or no tests" gpu_bundle --build "$folder/tools" --out "$folder/bundle"
check 71 "no GPU: there is no driver; run this where nvidia-smi lists one" test
check 0 "$PWD" run printenv DPTRAIN_SOURCE_DIR

export GPUS='[{"name": "Simulated GPU"}]'
check 64 "name another folder with --out" test
check 69 "compute-sanitizer" --out "$folder/results" sanitize

export GPUS='[{"name": "NVIDIA Test 9"}]'
check 0 "ok      ops_test: 1 passed (1 on a GPU), 0 failed, 1 skipped" --out "$folder/results" test
check 0 "passed; wrote $results.json" --out "$folder/results" sanitize
# Both calls are in the one document, beside what nobody measured.
written "Driver 580.1, CUDA 13.0"
written "| ops_test | 1 | 1 | 0 | 1 | 0 |"
written "| racecheck ops_test |"
written "| resnet18 | 512 | bf16 | not measured yet |"
RESULT=SKIPPED check 1 "Add.Adds/cuda_f32: skipped: no row cuda_f32: why" --out "$folder/results" test
ERRORS=2 check 1 "FAILED  memcheck ops_test" --out "$folder/results" sanitize
# Where neither trains: dptrain's row has failed, and PyTorch's wasn't measured.
check 1 "has no torch" --out "$folder/results" --python /bin/false bench lenet
exit "$bad"
