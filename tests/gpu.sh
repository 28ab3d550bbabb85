#!/usr/bin/env bash
# One command for a machine with a GPU: builds Hawser with its CUDA plugin, runs every GPU test, then the benchmarks, and
# prints one table beside PyTorch's figures from the same card, with what failed first. Needs a C++20 compiler, nvcc,
# CMake and ninja; no network. Within 8 minutes on 16 cores; nothing that hangs takes more than its share of them.
#
#   bash tests/gpu.sh [--carry FOLDER] [--build FOLDER] [--out FOLDER] [--tests-only | --bench-only] [--no-peer]
#                     [--seconds N] [--sanitize]
#
#   --carry    what the machine lacks, made by packaging/carry_for_gpu.sh (default: .carry, if it is there)
#   --build    build folder (default: build-gpu); a second call builds what has changed
#   --out      logs and results as JSON lines (default: gpu-results in the build folder)
#   --seconds  when to start nothing more (default: 480)
#   --sanitize the op cases under compute-sanitizer, too: memory, races, barriers; minutes
#
# The peer is torch_gpt.py of the carried folder, run by python3: it takes --shape, --batch, --seq, --accum, --dtype,
# --device, --steps and --compile and prints one JSON line with tok_s_median.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

carry=.carry build=build-gpu out="" tests=yes bench=yes peer=yes seconds=480 sanitize=no
host_libraries=${LD_LIBRARY_PATH:-}  # PyTorch's: where the driver is may be among them
fail() { echo "tests/gpu.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --carry | --build | --out)
      [ $# -gt 1 ] || fail "$1 needs a folder"
      case "$1" in --carry) carry=$2 ;; --build) build=$2 ;; --out) out=$2 ;; esac
      shift ;;
    --seconds) [ $# -gt 1 ] || fail "--seconds needs a number"; seconds=$2; shift ;;
    --tests-only) bench=no ;;
    --bench-only) tests=no ;;
    --no-peer) peer=no ;;
    --sanitize) sanitize=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
  shift
done
out=${out:-$build/gpu-results}
mkdir -p "$out" || fail "cannot write $out"
: >"$out/results.jsonl"
: >"$out/failures.txt"
begin=$SECONDS
say() { printf '== %4d s  %s\n' $((SECONDS - begin)) "$*"; }
left() { echo $((begin + seconds - SECONDS)); }
failed() { echo "$*" | tee -a "$out/failures.txt"; }
# in_time MOST COMMAND...: for so many seconds at most, and no longer than there is time. 124: that was too short.
in_time() {
  local most=$1 rest
  rest=$(left)
  shift
  [ "$rest" -lt "$most" ] && most=$rest
  [ "$most" -ge 5 ] || return 124
  timeout --kill-after=5 "$most" "$@"
}

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
  in_time "$seconds" cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$out/build.log" 2>&1 ||
    { grep -m 20 -E 'error|FAILED' "$out/build.log" || tail -3 "$out/build.log"; return 1; }
}

# Each program alone, so that one that hangs or breaks the GPU's context leaves the others theirs.
gpu_tests() {
  local name status=0 ended
  for name in plugin_test test op_cases_test train_test; do
    in_time 150 ctest --test-dir "$build" -R "^device_cuda_$name\$" --output-on-failure --no-tests=error \
            >"$out/$name.log" 2>&1
    ended=$?
    grep -E '^ *[0-9]+/[0-9]+ Test' "$out/$name.log"
    if [ $ended -eq 0 ] && [ $name != plugin_test ] && grep -q 'Skipped' "$out/$name.log"; then
      status=1
      failed "device_cuda_$name $(grep -m 1 '^skipped:' "$build/Testing/Temporary/LastTest.log")"
    fi
    [ $ended -eq 0 ] && continue
    status=1
    failed "device_cuda_$name ended with status $ended"
    grep -E '^\[  FAILED  \] .*(\(|$)' "$out/$name.log" | sort -u | head -12 | tee -a "$out/failures.txt"
    grep -m 1 -A 10 -E ': Failure$|C\+\+ exception|terminate called|Segmentation|error:' "$out/$name.log" |
      tee -a "$out/failures.txt"
  done
  return $status
}

# Our kernels as the hardware runs them, against what the emulator says of them.
sanitized_op_cases() {
  local tool status=0
  for tool in memcheck racecheck synccheck; do
    in_time 120 compute-sanitizer --tool $tool --error-exitcode 1 "$build/device_cuda_op_cases_test" \
            --gtest_filter='*SameBitsTwice/*' >"$out/$tool.log" 2>&1 && continue
    status=1
    failed "compute-sanitizer $tool: $(grep -m 1 -E 'Invalid|Race|Error|error|hazard|Barrier' "$out/$tool.log" || tail -1 "$out/$tool.log")"
  done
  return $status
}

golden_case() {
  local log="$out/golden-$(basename "$1")-$2.log"
  in_time 40 "$build/golden_check" "$1" --device cuda --precision "$2" >"$log" 2>&1 && return
  failed "golden case $1 in $2: $(grep -m 1 ' FAIL$' "$log" || tail -1 "$log")"
  return 1
}

# Every golden case on the GPU, in both precisions, all at once, since they are small: Transformers' values are the
# reference.
golden_cases() {
  local folder precision status=0 passed=0 job
  local jobs=()
  for folder in tests/golden/cases/*/; do
    for precision in fp32 bf16; do
      golden_case "$folder" $precision &
      jobs+=($!)
    done
  done
  for job in "${jobs[@]}"; do
    if wait "$job"; then passed=$((passed + 1)); else status=1; fi
  done
  echo "   $passed of ${#jobs[@]} golden cases and precisions passed"
  return $status
}

# keep WHO NAME MOST COMMAND...: runs it for so many seconds at most, and keeps its JSON lines.
keep() {
  local who=$1 name=$2 most=$3 status
  shift 3
  in_time "$most" "$@" >"$out/last" 2>"$out/$who-$name.log"
  status=$?
  case $status in
    0) ;;
    124 | 137) failed "$who, $name: no time was left for it" ;;
    *) failed "$who, $name: status $status: $(tail -1 "$out/$who-$name.log")" ;;
  esac
  grep '^{' "$out/last" | sed "s/^{/{\"who\": \"$who\", /" >>"$out/results.jsonl"
  return $status
}

# workload SHAPE BATCH ACCUM SEQUENCE PRECISION STEPS [any]: with `any`, sums in whatever order is fastest, as PyTorch.
workload() {
  local deterministic=true
  [ "${7:-}" != any ] || deterministic=false
  say "$1, $2 x $4 x $3, $5${7:+, any order of sums}"
  keep hawser "$1-$2-$4-$5${7:+-any}" 90 "$build/bench/bench_gpu_training" --preset "$1" --micro-batch "$2" --accum "$3" \
       --sequence "$4" --precision "$5" --steps "$6" --deterministic $deterministic || status=1
}

# peer_workload SHAPE BATCH ACCUM SEQUENCE DTYPE STEPS: the same with PyTorch, which compiles for a minute or two.
peer_workload() {
  [ "$peer" = yes ] && [ -f "$carry/torch_gpt.py" ] || return 0
  say "PyTorch: $1, $2 x $4 x $3, $5"
  keep pytorch "$1-$2-$4" 150 env LD_LIBRARY_PATH="$host_libraries" python3 "$carry/torch_gpt.py" --device cuda --compile \
       --shape "$1" --batch "$2" --accum "$3" --seq "$4" --dtype "$5" --steps "$6" || true
}

gpu_gib() { nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -1 | awk '{print int($1 / 1024)}'; }

# What `hawser plan` says of the shape: 101.2 GiB with rows of 8192, 71.9 with 2048. PyTorch's Adam would want 120.
largest_workload() {
  local gib
  gib=$(gpu_gib)
  if [ "${gib:-0}" -ge 104 ]; then
    workload llama-3.1-8b 1 1 8192 bf16_pure 4
    workload llama-3.1-8b 1 1 8192 bf16_pure 4 any
  else
    echo "   llama-3.1-8b with rows of 8192 takes 101.2 GiB, this GPU has ${gib:-no known number of}: its row is left out"
    [ "${gib:-0}" -lt 75 ] || workload llama-3.1-8b 1 1 2048 bf16_pure 8
  fi
}

print_table() {
  python3 - "$out/results.jsonl" "$out/failures.txt" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
failures = open(sys.argv[2]).read().splitlines()
print("\n" + "\n".join(["FAILED, in this order:", *failures[:25]] if failures else ["nothing failed"]))
runs, kernels = {}, {}
for line in lines:
    if "kernel" in line:
        kernels.setdefault(line["kernel"], line)
        continue
    order = "" if line.get("deterministic") else "any order"
    key = (line["shape"], line["batch"], line["accum"], line["seq"], line["dtype"].replace("_pure", ""))
    runs.setdefault(key, {})[order if line["who"] == "hawser" else "pytorch"] = line["tok_s_median"]
# Floor and stretch of one H200, tokens/s.
targets = {("gpt2-124m", 1024): (560e3, 650e3), ("gpt2-1558m", 1024): (57e3, 61e3), ("llama-3.1-8b", 8192): (12.2e3, None),
           ("gpt2-124m", 64): (64 / 2e-3, 64 / 1.3e-3)}
show = lambda x, form="{:.0f}": form.format(x) if x else "-"
below = lambda value, floor: "  <- below the floor" if value and floor and value < floor else ""
print(f"\n{'workload, tokens/s':40} {'Hawser':>9} {'any order':>9} {'PyTorch':>9} {'ratio':>6} {'floor':>9} {'stretch':>9}")
for (shape, batch, accum, seq, dtype), who in runs.items():
    ours, fast, theirs = who.get(""), who.get("any order"), who.get("pytorch")
    best = max(ours or 0, fast or 0)
    floor, stretch = targets.get((shape, seq), (None, None))
    print(f"{f'{shape} {dtype} {batch} x {seq} x {accum}':40} {show(ours):>9} {show(fast):>9} {show(theirs):>9} "
          f"{show(best / theirs if theirs else 0, '{:.2f}'):>6} {show(floor):>9} {show(stretch):>9}{below(best, floor)}")
# Shares of the copy's bandwidth; TFLOP/s.
floors = {"rms_norm": ("share", 0.85), "swiglu": ("share", 0.85), "adamw": ("share", 0.85), "head +": ("value", 600)}
print(f"\n{'kernel':52} {'value':>8} {'unit':>8} {'limit':>8} {'share':>6} {'floor':>6}")
for name, k in kernels.items():
    what, floor = next((f for prefix, f in floors.items() if name.startswith(prefix)), ("value", None))
    print(f"{name:52} {k['value']:>8} {k['unit']:>8} {k.get('limit', '-'):>8} {k.get('share', '-'):>6} "
          f"{floor or '-':>6}{below(k.get(what), floor)}")
PYTHON
}

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader || fail "no GPU: nvidia-smi does not answer"
export LD_LIBRARY_PATH=$(library_folders | paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
say "build"
configure_and_build || fail "the build failed; all of it is in $out/build.log"
status=0
if [ "$tests" = yes ]; then
  say "tests"
  gpu_tests || status=1
  say "golden cases"
  golden_cases || status=1
  if [ "$sanitize" = yes ]; then
    say "op cases under compute-sanitizer"
    sanitized_op_cases || status=1
  fi
fi
if [ "$bench" = yes ]; then
  say "kernels"
  for family in $("$build/bench_gpu_kernels" --list); do
    keep hawser $family 40 "$build/bench_gpu_kernels" $family || status=1
  done
  workload gpt2-124m 64 8 1024 bf16 8
  workload gpt2-124m 64 8 1024 bf16 8 any
  workload gpt2-124m 1 1 64 bf16 50
  workload gpt2-1558m 16 4 1024 bf16 3
  workload gpt2-1558m 16 4 1024 bf16 3 any
  largest_workload
  print_table | tee "$out/table.txt"  # should there be no time for the rest
  peer_workload gpt2-124m 64 8 1024 bf16 8
  peer_workload gpt2-124m 1 1 64 bf16 50
  peer_workload gpt2-1558m 16 4 1024 bf16 3
fi
print_table | tee "$out/table.txt"
say "done; logs in $out"
exit $status
