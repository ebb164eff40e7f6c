#!/usr/bin/env bash
# What scripts/gpu_check.sh prints and writes, on any machine. Its build is a stub with or without a GPU, and with one test program.
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
export GPUS='[]' RESULT=COMPLETED ERRORS=0 CUBLASLT_OF= CRASHES= SAYS= TAKES_S=0
cat > "$folder/build/dptrain" << 'END'
#!/bin/sh
case "$*" in
  --version)
    sleep "$TAKES_S"
    echo 'dptrain 0.0.0 (abc)'
    cublaslt=
    # Opened by its name, and not linked.
    if [ -n "$CUBLASLT_OF" ]; then
      cublaslt=', cuBLASLt (not found)'
      for one in $(echo "$LD_LIBRARY_PATH" | tr : ' '); do [ ! -e "$one/libcublasLt.so.$CUBLASLT_OF" ] || cublaslt=', cuBLASLt 1'; done
    fi
    echo "with: CUDA ${CUBLASLT_OF:-13}.0$cublaslt"
    exit ;;
  *--config*)
    [ -n "$TRAINING" ] || { echo 'dptrain: no training here' >&2; exit 71; }
    echo "$*" >> "$TRAINING"
    case "$*" in
      *--trace*)
        run=$(echo "$*" | sed 's/.*--out \([^ ]*\).*/\1/')
        mkdir -p "$run"
        echo '{"traceEvents": []}' > "$run/trace.json" ;;
    esac
    for epoch in 1 2 3; do echo '{"train": {"samples": 20000, "seconds": 2.0}, "devices": [{"peak_bytes": 3000000}]}'; done
    exit ;;
esac
echo "{\"cuda\": $GPUS, \"cuda_absence\": \"there is no driver\"}"
END
# A GPU test that passes or is skipped, a CPU test that is skipped, and a test that needs two GPUs. If $CRASHES is set, the first
# test ends the program.
cat > "$folder/build/tests/ops_test" << 'END'
#!/bin/sh
case "$*" in
  *--gtest_list_tests*--gtest_filter='*cuda*'*) printf 'Add.\n  Adds/cuda_f32  # GetParam() = 1\n  Meets/cuda_two\n'; exit ;;
  *--gtest_list_tests*--gtest_filter='*-*cuda*'*) printf 'Add.\n  Adds/cpu_f32\n'; exit ;;
  *--gtest_list_tests*) exit ;;
esac
flags=${1#--gtest_flagfile=}
report=$(sed -n 's/^--gtest_output=json://p' "$flags")
cases=
case $(cat "$flags") in
  *Adds/cuda_f32*)
    printf '[ RUN      ] Add.Adds/cuda_f32\na.h:1: Skipped\nno row cuda_f32: why\n'
    [ -z "$CRASHES" ] || exit 9
    printf '[  SKIPPED ] Add.Adds/cuda_f32\n'
    cases="{\"classname\": \"Add\", \"name\": \"Adds/cuda_f32\", \"result\": \"$RESULT\"}," ;;
esac
case $(cat "$flags") in
  *Meets/cuda_two*)
    printf '[ RUN      ] Add.Meets/cuda_two\na.h:1: Skipped\nneeds 2 GPUs, there are 1\n[  SKIPPED ] Add.Meets/cuda_two\n'
    cases="$cases{\"classname\": \"Add\", \"name\": \"Meets/cuda_two\", \"result\": \"SKIPPED\"}," ;;
esac
case $(cat "$flags") in
  *cpu_f32*) cases="$cases{\"classname\": \"Add\", \"name\": \"Adds/cpu_f32\", \"result\": \"SKIPPED\"}," ;;
esac
echo "{\"testsuites\": [{\"testsuite\": [${cases%,}]}]}" > "$report"
END
cat > "$folder/tools/compute-sanitizer" << 'END'
#!/bin/sh
while [ "${1##*_test}" = "$1" ] || [ "${1##*/}" = "$1" ]; do shift; done
"$@"
[ -z "$SAYS" ] || echo "$SAYS"
echo "========= ERROR SUMMARY: $ERRORS errors"
END
# A python3 with PyTorch, whose eager steps are slower.
cat > "$folder/tools/python-with-torch" << 'END'
#!/bin/sh
[ "$1" != -c ] || exit 0
case "$*" in
  *--fast*) speed=8000 ;;
  *) speed=5000 ;;
esac
echo "$*" >> "$TRAINING"
echo "{\"peer\": \"pytorch 9\", \"samples_per_s\": $speed, \"start_s\": 4, \"peak_bytes\": 4000000}"
END
printf '#!/bin/sh\necho "NVIDIA Test 9, 580.1"\n' > "$folder/tools/nvidia-smi"
chmod +x "$folder"/build/dptrain "$folder"/build/tests/ops_test "$folder"/tools/*
export TRAINING=
PATH=$folder/tools:$PATH
results=$folder/results/gpu-nvidia-test-9

# expect CODE SENTENCE SCRIPT ARGUMENT...: the script exits with the code and prints the sentence.
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
expect 64 "bench needs a case" gpu_check bench
expect 64 "unknown argument 'tset'" gpu_check tset
expect 64 "--limit-s needs a number" gpu_check --limit-s 9m test
expect 64 "run needs a program" gpu_check run
expect 64 "--precision needs one of" gpu_check --precision fp8 bench lenet
expect 66 "there is no dptrain in $folder" gpu_check --build "$folder" test
expect 64 "unknown argument 'now'" gpu_bundle now
expect 64 "exists and is not a bundle" gpu_bundle --out "$folder/build"
expect 66 "has no dptrain or no tests" gpu_bundle --build "$folder/tools" --out "$folder/bundle"
check 71 "no GPU: there is no driver; run this where nvidia-smi lists one" test
check 0 "$PWD" run printenv DPTRAIN_SOURCE_DIR

# A bundle is unpacked once, and into another folder than its own.
mkdir "$folder/bundle" "$folder/unpacked"
tar -C "$folder/build" -c . | xz > "$folder/bundle/bundle.tar.xz"
TMPDIR=$folder/unpacked expect 71 "no GPU: there is no driver" gpu_check --build "$folder/bundle" test
TMPDIR=$folder/unpacked expect 0 "dptrain 0.0.0" gpu_check --build "$folder/bundle" run dptrain --version
[[ $(ls "$folder/bundle") == bundle.tar.xz && $(ls "$folder/unpacked") == dptrain-bundle-* ]] ||
  { echo "gpu_check: a bundle is to be unpacked once, and not where it lies: $(ls "$folder/bundle" "$folder/unpacked")"; bad=1; }
# A bundle of other sources than the checkout's is refused.
sha256sum README.md > "$folder/bundle/SOURCES"
TMPDIR=$folder/unpacked expect 0 "dptrain 0.0.0" gpu_check --build "$folder/bundle" run dptrain --version
echo "$(printf '0%.0s' {1..64})  README.md" > "$folder/bundle/SOURCES"
TMPDIR=$folder/unpacked expect 66 "made of other sources: README.md differs" gpu_check --build "$folder/bundle" test
rm "$folder/bundle/SOURCES"
echo damaged > "$folder/bundle/bundle.tar.xz"
TMPDIR=$folder/unpacked expect 74 "can't be unpacked" gpu_check --build "$folder/bundle" test

# Libraries that dptrain opens itself are searched for where the linked ones are.
mkdir -p "$folder/site-packages/nvidia/cublas/lib"
touch "$folder/site-packages/nvidia/cublas/lib/libcublasLt.so.98"
export PYTHONPATH=$folder/site-packages
CUBLASLT_OF=98 check 0 "gpu_check: libcublasLt.so.98 is in $folder/site-packages/nvidia/cublas/lib" run printenv LD_LIBRARY_PATH
CUBLASLT_OF=99 check 69 "no libcublasLt.so.99 in " run printenv DPTRAIN_SOURCE_DIR

export GPUS='[{"name": "Simulated GPU"}]'
check 64 "name another folder with --out" test
check 69 "compute-sanitizer" --out "$folder/results" sanitize

export GPUS='[{"name": "NVIDIA Test 9"}]'
check 0 "ok      ops_test: 1 passed (1 on a GPU), 0 failed, 1 skipped" --out "$folder/results" test
check 0 "ok      ops_test (no GPU): 0 passed (0 on a GPU), 0 failed, 1 skipped" --out "$folder/results" test
check 0 "passed; wrote $results.json" --out "$folder/results" sanitize
# Both calls are in one document, which also lists what wasn't measured.
written "Driver 580.1, CUDA 13.0"
written "| ops_test | 1 | 1 | 0 | 1 | 0 |"
written "ops_test: \`Add.Meets/cuda_two\` skipped: needs 2 GPUs, there are 1"
written "| racecheck ops_test |"
for row in "resnet18 | 512" "pyramidnet | 240" "pyramidnet | 768" "bert | 200"; do written "| $row | bf16 | not measured yet |"; done
RESULT=SKIPPED check 1 "Add.Adds/cuda_f32: skipped: no row cuda_f32: why" --out "$folder/results" test
# Tests that a crash has prevented run in a new process.
CRASHES=1 check 1 "0 passed (0 on a GPU), 1 failed, 1 skipped, 0 not run" --out "$folder/results" --cuda-only test
CRASHES=1 check 1 "Add.Adds/cuda_f32: exited with code 9 | a.h:1: Skipped" --out "$folder/results" --logs "$folder/logs" --cuda-only test
grep -qF "exited with code 9" "$folder/logs/ops-test.log" || { echo "gpu_check: --logs has nothing of a crash"; bad=1; }
# A program that can't list its tests counts as failed, and the others run.
printf '#!/bin/sh\necho "no libcudnn" >&2; exit 9\n' > "$folder/build/tests/broken_test"
chmod +x "$folder/build/tests/broken_test"
check 1 "broken_test: 0 passed (0 on a GPU), 1 failed" --out "$folder/results" --cuda-only test
check 1 "no test: could not list its tests: no libcudnn" --out "$folder/results" --cuda-only test
check 1 "ok      ops_test: 1 passed" --out "$folder/results" --cuda-only test
rm "$folder/build/tests/broken_test"
# A test for which no time is left counts as failed, too.
check 1 "any test: not started before the limit" --out "$folder/results" --limit-s 1 --cuda-only test
TAKES_S=1 check 1 "no time is left of --total-s 1" --out "$folder/results" --total-s 1 test sanitize
# If the script is ended early, finished results are kept, and no program keeps running.
mkdir -p "$folder/slow/tests"
cp "$folder/build/dptrain" "$folder/slow"
cat > "$folder/slow/tests/ops_test" << 'END'
#!/bin/sh
case "$*" in
  *--gtest_list_tests*--gtest_filter='*cuda*'*) echo Add.; seq -f '  Adds/cuda_%g' 1 9; exit ;;
  *--gtest_list_tests*) exit ;;
esac
grep -q 'cuda_1:' "${1#*=}" || exec sleep 987654
report=$(sed -n 's/^--gtest_output=json://p' "${1#*=}")
echo '{"testsuites": [{"testsuite": [{"classname": "Add", "name": "Adds/cuda_1", "result": "COMPLETED"}]}]}' > "$report"
END
chmod +x "$folder/slow/tests/ops_test"
mkdir "$folder/work"
TMPDIR=$folder/work setsid scripts/gpu_check.sh --build "$folder/slow" --out "$folder/slow" --jobs 2 test > /dev/null 2>&1 &
check=$!
# The script is ended once it has recorded the finished test. As timeout does, the signal goes to the script first, and then to it
# and its children.
for _ in {1..600}; do
  ! grep -qs '"passed": 1' "$folder"/work/*/test.json && kill -0 "$check" 2> /dev/null || break
  sleep 0.1
done
kill "$check" || true
sleep 0.1
kill -- "-$check" || true
wait "$check" || true
grep -qsF '| ops_test | 1 | 1 | 0 | 0 |' "$folder"/slow/*.md || { echo "gpu_check: what has run before it is ended is lost"; bad=1; }
sleep 0.5
! pkill -f 'sleep 987654' || { echo "gpu_check: a test program goes on after it was ended"; bad=1; }
ERRORS=2 check 1 "FAILED  memcheck ops_test" --out "$folder/results" sanitize
ERRORS=2 check 1 "FAILED  memcheck of libraries ops_test" --out "$folder/results" sanitize
SAYS='========= Internal Sanitizer Error: out of memory' check 1 "FAILED  racecheck ops_test" --out "$folder/results" sanitize
SAYS='========= Internal Sanitizer Error: out of memory' check 1 "Internal Sanitizer Error" --out "$folder/results" sanitize
# If neither trains, dptrain's row has failed, and PyTorch's wasn't measured.
check 1 "has no torch" --out "$folder/results" --python /bin/false bench lenet
written 'lenet fp32: dptrain failed: `dptrain: no training here`'
# If both train, they have the same model and batch, and the row shows its target beside its result.
export TRAINING=$folder/training
check 0 "passed; wrote" --out "$folder/results" --python python-with-torch --rounds 2 --logs "$folder/logs" \
  bench bert bench pyramidnet-768
for case in bert pyramidnet-768; do
  [[ -s $folder/logs/trace-$case-bf16.json ]] || { echo "gpu_check: --logs has no timeline of $case"; bad=1; }
done
[[ $(grep -c -e '--trace' "$TRAINING") == 2 ]] || { echo "gpu_check: a timeline is to be drawn once"; bad=1; }
trained() { grep -qF -e "$1" "$TRAINING" || { echo "gpu_check: no training was started with: $1"; bad=1; }; }
written "| bert | 200 | bf16 | 2.000 | 10,000 | 5,000 | 8,000 | 1.25x (meets >= 1.2x) | 3, 4, 4 | 0.75x |"
written "| pyramidnet | 768 | bf16 | 2.000 | 10,000 | 5,000 | 8,000 | 1.25x (misses >= 1.3x) |"
written "| pyramidnet | 240 | bf16 | not measured yet |"
trained "bert_ddp_4gpu.yaml --devices cuda:0"
trained "--set batch_size=200 --set precision=bf16 --set eval_every=0 --set checkpoint={every_epochs: 0} --set strategy=single --set optimizer=adam"
trained "--model bert --batch 200 --device cuda"
trained "--model pyramidnet --batch 768 --device cuda"
trained "--precision bf16 --fast --compile-mode default"
check 1 "is measured in bf16, not in fp32" --out "$folder/results" --precision fp32 bench bert
exit "$bad"
