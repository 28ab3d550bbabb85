#!/usr/bin/env bash
# One command for a machine with a GPU: builds Hawser with its CUDA plugin, runs every GPU test, then the benchmarks, and
# prints one table beside PyTorch's figures from the same card. Needs a C++20 compiler, nvcc, CMake and ninja; no
# network. Within 8 minutes on 16 cores.
#
#   bash tests/gpu.sh [--carry FOLDER] [--build FOLDER] [--out FOLDER] [--tests-only | --bench-only] [--no-peer]
#
#   --carry   what the machine lacks, made by packaging/carry_for_gpu.sh (default: .carry, if it is there)
#   --build   build folder (default: build-gpu)
#   --out     logs and results as JSON lines (default: a new folder in the build folder)
#
# The peer is torch_gpt.py of the carried folder, run by python3: it takes --shape, --batch, --seq, --accum, --dtype,
# --device, --steps and --compile and prints one JSON line with tok_s_median.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

carry=.carry build=build-gpu out="" tests=yes bench=yes peer=yes
fail() { echo "tests/gpu.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --carry | --build | --out)
      [ $# -gt 1 ] || fail "$1 needs a folder"
      case "$1" in --carry) carry=$2 ;; --build) build=$2 ;; --out) out=$2 ;; esac
      shift ;;
    --tests-only) bench=no ;;
    --bench-only) tests=no ;;
    --no-peer) peer=no ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
  shift
done
out=${out:-$build/gpu-results}
mkdir -p "$out" || fail "cannot write $out"
: >"$out/results.jsonl"
begin=$SECONDS
say() { printf '== %4d s  %s\n' $((SECONDS - begin)) "$*"; }

# Libraries that the plugin opens by name: those of the toolkit, else those that came with Python packages.
library_folders() {
  local nvcc
  nvcc=$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")
  echo "$(dirname "$(dirname "$nvcc")")/lib64"
  python3 - <<'PYTHON' 2>/dev/null
import glob, site, sys
for root in {*site.getsitepackages(), *sys.path}:
    for folder in glob.glob(root + "/nvidia/*/lib"):
        print(folder)
PYTHON
}

# Folders of cudnn.h and of cudnn_frontend.h, as CMake's list.
cudnn_include() {
  local carried=$PWD/$carry/cudnn/include
  case "$carry" in /*) carried=$carry/cudnn/include ;; esac
  python3 - "$carried" <<'PYTHON'
import glob, os, site, sys
places = [sys.argv[1]]
for root in {*site.getsitepackages(), *sys.path}:
    places += [root + "/include", root + "/nvidia/cudnn/include", *glob.glob(root + "/nvidia/cu1*/include")]
print(";".join(p for p in places if os.path.isdir(p)))
PYTHON
}

configure_and_build() {
  # Another compiler than ours may know other warnings.
  local configure=(-DCMAKE_BUILD_TYPE=Release -DHAWSER_CUDA=ON -DHAWSER_CUDA_ARCHITECTURES=native -DHAWSER_WERROR=OFF)
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
  # cuDNN's headers: carried, or those of PyTorch's packages.
  configure+=("-DHAWSER_CUDNN_INCLUDE=$(cudnn_include)")
  # Hopper's and Blackwell's own instructions are in the architectures with an a.
  case "$capability" in 90 | 100) configure[2]=-DHAWSER_CUDA_ARCHITECTURES=${capability}a-real ;; esac
  if [ -d "$carry/usr" ]; then
    local usr=$PWD/$carry/usr
    case "$carry" in /*) usr=$carry/usr ;; esac
    configure+=("-DCMAKE_PREFIX_PATH=$usr" "-DHAWSER_FLATC=$usr/bin/flatc"
                "-DCMAKE_CXX_FLAGS=-isystem $usr/include")
    chmod +x "$usr/bin/flatc"
    export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  cmake -S . -B "$build" -G Ninja "${configure[@]}" >"$out/configure.log" 2>&1 || { tail -20 "$out/configure.log"; return 1; }
  local targets=(hawser hawser_cuda device_cuda_plugin_test device_cuda_test device_cuda_op_cases_test
                 device_cuda_train_test golden_check bench_gpu_training bench_gpu_kernels)
  cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$out/build.log" 2>&1 ||
    { grep -m 20 -E 'error|FAILED' "$out/build.log"; return 1; }
}

# Every golden case on the GPU, in both precisions: Transformers' values are the reference.
golden_cases() {
  local folder precision status=0 passed=0
  for folder in tests/golden/cases/*/; do
    for precision in fp32 bf16; do
      if timeout 60 "$build/golden_check" "$folder" --device cuda --precision $precision >"$out/last" 2>&1; then
        passed=$((passed + 1))
      else
        status=1
        echo "   golden case $folder in $precision differs or failed:"
        tail -3 "$out/last"
      fi
      cat "$out/last" >>"$out/golden.log"
    done
  done
  echo "   $passed golden cases and precisions passed"
  return $status
}

# keep WHO COMMAND...: runs it for at most 100 s and keeps its JSON lines.
keep() {
  local who=$1 name
  shift
  name=$(basename "$1")
  timeout 100 "$@" >"$out/last" 2>>"$out/$name.log"
  local status=$?
  [ $status -eq 0 ] || echo "   $* ended with status $status: $(tail -1 "$out/$name.log")"
  grep '^{' "$out/last" | sed "s/^{/{\"who\": \"$who\", /" >>"$out/results.jsonl"
}

# workload SHAPE BATCH ACCUM SEQUENCE PRECISION STEPS
workload() {
  say "$1, $2 x $4 x $3, $5"
  keep hawser "$build/bench/bench_gpu_training" --preset "$1" --micro-batch "$2" --accum "$3" --sequence "$4" \
       --precision "$5" --steps "$6"
  if [ "$peer" = yes ] && [ -f "$carry/torch_gpt.py" ]; then
    keep pytorch env -u LD_LIBRARY_PATH python3 "$carry/torch_gpt.py" --device cuda --compile --shape "$1" --batch "$2" --accum "$3" --seq "$4" \
         --dtype "${5%_pure}" --steps "$6"
  fi
}

print_table() {
  python3 - "$out/results.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
runs, kernels = {}, []
for line in lines:
    if "kernel" in line:
        kernels.append(line)
        continue
    key = (line["shape"], line["batch"], line["accum"], line["seq"], line["dtype"].replace("_pure", ""))
    runs.setdefault(key, {})[line["who"]] = line["tok_s_median"]
# Floor and stretch of one H200, tokens/s.
targets = {("gpt2-124m", 1024): (560e3, 650e3), ("gpt2-1558m", 1024): (57e3, 61e3), ("llama-3.1-8b", 8192): (12.2e3, None),
           ("gpt2-124m", 64): (64 / 2e-3, 64 / 1.3e-3)}
print(f"\n{'workload':44} {'Hawser':>10} {'PyTorch':>10} {'ratio':>6} {'floor':>9} {'stretch':>9}")
for (shape, batch, accum, seq, dtype), who in runs.items():
    ours, theirs = who.get("hawser"), who.get("pytorch")
    floor, stretch = targets.get((shape, seq), (None, None))
    show = lambda x: f"{x:.0f}" if x else "-"
    ratio = f"{ours / theirs:.2f}" if ours and theirs else "-"
    print(f"{f'{shape} {dtype} {batch} x {seq} x {accum}':44} {show(ours):>10} {show(theirs):>10} {ratio:>6} "
          f"{show(floor):>9} {show(stretch):>9}")
print(f"\n{'kernel':44} {'value':>10} {'unit':>8} {'limit':>8} {'share':>6}")
for k in kernels:
    print(f"{k['kernel']:44} {k['value']:>10} {k['unit']:>8} {k.get('limit', '-'):>8} {k.get('share', '-'):>6}")
PYTHON
}

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader || fail "no GPU: nvidia-smi does not answer"
export LD_LIBRARY_PATH=$(library_folders | paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
say "build"
configure_and_build || fail "the build failed; all of it is in $out/build.log"
status=0
if [ "$tests" = yes ]; then
  say "tests"
  timeout 200 ctest --test-dir "$build" -R 'device_cuda_(plugin_test|test|op_cases_test|train_test)' --output-on-failure \
          --no-tests=error 2>&1 | tee "$out/tests.log" | tail -60 || status=1
  say "golden cases"
  golden_cases || status=1
fi
if [ "$bench" = yes ]; then
  say "kernels"
  keep hawser "$build/bench_gpu_kernels"
  workload gpt2-124m 64 8 1024 bf16 8
  workload gpt2-124m 1 1 64 bf16 50
  workload gpt2-1558m 16 4 1024 bf16 3
  print_table | tee "$out/table.txt"
fi
say "done; logs in $out"
exit $status
