#!/usr/bin/env bash
# Runs Hawser on a machine with a GPU: every GPU test, golden cases, benchmarks and a profile, in phases.
# After each phase the output folder holds all results so far, so losing the machine early costs at most one
# phase.
#
#   bash tests/gpu.sh [--phases NAME,... | first | second] [--seconds N] [--patience N]
#                     [--out FOLDER] [--carry FOLDER] [--build FOLDER] [--programs FOLDER]
#
#   --phases    the phases to run, in this order (default: first, then second)
#                 first:   device kernels training ops profile train golden
#                 second:  large peer
#                 sanitize, by name only: the op cases under compute-sanitizer
#   --seconds   start nothing after this time (default: 480)
#   --patience  a training test that runs longer hangs (default: 60)
#   --out       four files: table.txt, failures.txt, results.jsonl, logs.tgz (default: gpu-results in the build folder)
#   --carry     programs and packages made by packaging/carry_for_gpu.sh (default: .carry, if it exists)
#   --build     build folder (default: build-gpu), used if no carried program runs on this machine
#   --programs  a folder with built programs: nothing is built, and carried programs are ignored
#
# Building needs a C++20 compiler, nvcc, CMake and ninja; nothing needs a network. The peer is torch_gpt.py of
# the carried folder. It takes --shape, --batch, --seq, --accum, --dtype, --device, --steps and --compile, and
# prints one JSON line with tok_s_median. The script exits with 1 if anything failed, and with 2 if nothing
# could be run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

carry=.carry build=build-gpu out="" programs="" seconds=480 patience=60 phases=first,second jobs=8
host_libraries=${LD_LIBRARY_PATH:-}  # for PyTorch; the driver may be among them
fail() { echo "tests/gpu.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --carry | --build | --out | --programs | --seconds | --patience | --phases)
      [ $# -gt 1 ] || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
  shift
done
phases=,$phases,
phases=${phases/,first,/,device,kernels,training,ops,profile,train,golden,}
phases=${phases/,second,/,large,peer,}
out=${out:-$build/gpu-results}
mkdir -p "$out" || fail "cannot write $out"
work=$(mktemp -d "${TMPDIR:-/tmp}/hawser-gpu.XXXXXX")
logs=$work/logs
mkdir "$logs"
: >"$out/results.jsonl"
: >"$out/failures.txt"
begin=$SECONDS deadline=$((SECONDS + seconds))
say() { printf '== %4d s  %s\n' $((SECONDS - begin)) "$*"; }
failed() { echo "$*" | tee -a "$out/failures.txt"; }

# ---- running one program ----

last_line() { tr -d '\r' <"$1" | grep -v '^$' | tail -1 | cut -c1-300; }

# Prints why the program of a log failed: names of failed tests, and the failed numbers or the first message.
evidence() {
  grep -E '^\[  FAILED  \] .* ms\)$' "$1" | head -12
  { grep -m 8 ' FAIL$' "$1" || grep -m 1 -A 10 -E ': Failure$|terminate called|[Ee]rror:' "$1" || last_line "$1"; } | cut -c1-400
}

# attempt NAME MOST COMMAND...: runs the command for at most MOST seconds, and no longer than the script has
# left. Writes its output to logs/NAME.log. If it fails, records the reason from the log.
attempt() {
  local name=$1 most=$2 log=$logs/$1.log rest=$((deadline - SECONDS)) why="" status
  shift 2
  [ "$rest" -ge 3 ] || { failed "$name: not started: the script's time was over"; return 1; }
  [ "$rest" -ge "$most" ] || { most=$rest why=", all that the script had left"; }
  timeout --kill-after=5 "$most" stdbuf -oL "$@" >"$log" 2>"$log.err"
  status=$?
  cat "$log.err" >>"$log"
  case $status in
    0) return 0 ;;
    77) failed "$name: $(grep -m 1 '^skipped:' "$log")" ;;
    124 | 137) failed "$name: ran out of time after $most s$why; its last line: $(last_line "$log")" ;;
    *)
      if [ $status -gt 128 ]; then
        failed "$name: killed by signal $((status - 128)) ($(kill -l $((status - 128)))); its last line: $(last_line "$log")"
      else
        failed "$name: status $status"
      fi
      evidence "$log" | sed 's/^/    /' | tee -a "$out/failures.txt" ;;
  esac
  return 1
}

# in_parallel MOST: reads lines NAME COMMAND... and attempts each for MOST seconds, several at a time.
in_parallel() {
  local most=$1 name command running=0 status=0 all=0 good=0
  while read -r name command; do
    [ $running -lt $jobs ] || { wait -n && good=$((good + 1)) || status=1; running=$((running - 1)); }
    attempt "$name" "$most" bash -c "exec $command" </dev/null &
    running=$((running + 1)) all=$((all + 1))
  done
  while [ $running -gt 0 ]; do wait -n && good=$((good + 1)) || status=1; running=$((running - 1)); done
  echo "   $good of $all passed"
  return $status
}

# measure WHO NAME MOST COMMAND...: attempts the command, and keeps its JSON lines with the driver's version.
measure() {
  local who=$1 name=$1-$2 status
  shift 2
  attempt "$name" "$@"
  status=$?
  grep '^{' "$logs/$name.log" 2>/dev/null | sed "s/^{/{\"who\": \"$who\", \"driver\": \"$driver\", /" >>"$out/results.jsonl"
  return $status
}

# Writes all results so far. Each file is replaced in one step.
collect() {
  cp "$out/results.jsonl" "$out/failures.txt" "$logs/"
  tar -C "$work" -czf "$work/logs.tgz" logs && cp "$work/logs.tgz" "$out/logs.tgz.new" && mv "$out/logs.tgz.new" "$out/logs.tgz"
  python3 tests/gpu_table.py "$out/results.jsonl" "$out/failures.txt" "$logs/ncu.csv" >"$work/table.txt" 2>&1
  cp "$work/table.txt" "$out/table.txt.new" && mv "$out/table.txt.new" "$out/table.txt"
}

# ---- finding or building the programs ----

# Prints the folders of the libraries that the plugin opens by name: the toolkit's, then those of Python
# packages.
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

# Prints the folders of cudnn.h and of cudnn_frontend.h as a CMake list.
cudnn_include() {
  python3 - "$carry/cudnn/include" <<'PYTHON'
import glob, os, site, sys
places = [sys.argv[1]]
for root in {*site.getsitepackages(), *sys.path}:
    places += [root + "/include", root + "/nvidia/cudnn/include", *glob.glob(root + "/nvidia/cu1*/include")]
print(";".join(p for p in places if os.path.isdir(p)))
PYTHON
}

# Uses the carried programs if they were built from these sources, find their libraries and open the plugin.
unpack_programs() {
  [ -f "$carry/programs.tgz" ] || return 1
  mkdir -p "$work/programs" && tar -C "$work/programs" -xzf "$carry/programs.tgz" || return 1
  programs=$work/programs
  export LD_LIBRARY_PATH=$programs:$programs/libraries:$LD_LIBRARY_PATH
  local missing
  missing=$(ldd "$programs"/*_test "$programs"/bench_* "$programs/golden_check" "$programs"/hawser-0/*.so | grep 'not found' | sort -u)
  [ -z "$missing" ] || { echo "   the carried programs lack libraries:" $missing; return 1; }
  timeout 30 "$programs/device_cuda_plugin_test" >"$logs/smoke.log" 2>&1 && return
  echo "   the carried programs do not run here: $(last_line "$logs/smoke.log")"
  return 1
}

configure_and_build() {
  # Another compiler may have other warnings, so warnings are not errors.
  local configure=(-DCMAKE_BUILD_TYPE=Release -DHAWSER_CUDA=ON -DHAWSER_CUDA_ARCHITECTURES=native -DHAWSER_WERROR=OFF)
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
  configure+=("-DHAWSER_CUDNN_INCLUDE=$(cudnn_include)")
  # Only the architectures with an "a" have Hopper's and Blackwell's own instructions.
  case "$capability" in 90 | 100) configure[2]=-DHAWSER_CUDA_ARCHITECTURES=${capability}a-real ;; esac
  if [ -d "$carry/usr" ]; then
    local usr=$carry/usr
    configure+=("-DCMAKE_PREFIX_PATH=$usr" "-DHAWSER_FLATC=$usr/bin/flatc"
                "-DCMAKE_CXX_FLAGS=-isystem $usr/include")
    chmod +x "$usr/bin/flatc"
    export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu:$LD_LIBRARY_PATH
  fi
  cmake -S . -B "$build" -G Ninja "${configure[@]}" >"$logs/configure.log" 2>&1 || { tail -20 "$logs/configure.log"; return 1; }
  local targets=(hawser hawser_cuda device_cuda_plugin_test device_cuda_test device_cuda_op_cases_test
                 device_cuda_train_test golden_check bench_gpu_training bench_gpu_kernels)
  timeout $((deadline - SECONDS)) cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$logs/build.log" 2>&1 ||
    { grep -m 20 -E 'error|FAILED' "$logs/build.log" || tail -3 "$logs/build.log"; return 1; }
  programs=$build
}

program() { [ -x "$programs/$1" ] && echo "$programs/$1" || echo "$programs/bench/$1"; }

# ---- phases ----

phase_device() { attempt device_cuda_test 60 "$(program device_cuda_test)"; }

phase_kernels() {
  local family status=0
  for family in $("$(program bench_gpu_kernels)" --list); do
    measure hawser "kernels-$family" 30 "$(program bench_gpu_kernels)" "$family" || status=1
  done
  return $status
}

# workload SHAPE BATCH ACCUM SEQUENCE PRECISION STEPS [OPTION...]: trains on random tokens.
workload() {
  local shape=$1 batch=$2 accum=$3 sequence=$4 precision=$5 steps=$6
  shift 6
  say "$shape, $batch x $sequence x $accum, $precision $*"
  measure hawser "$shape-$batch-$sequence-$precision$(printf '%s' "$*" | tr -dc 'a-z0-9')" 100 "$(program bench_gpu_training)" \
    --preset "$shape" --micro-batch "$batch" --accum "$accum" --sequence "$sequence" --precision "$precision" --steps "$steps" "$@"
}
any_order=(--deterministic false)

phase_training() {
  local status=0
  workload gpt2-124m 64 8 1024 bf16 5 --warm-up 2 || status=1
  workload gpt2-124m 64 8 1024 bf16 5 --warm-up 2 "${any_order[@]}" || status=1
  workload gpt2-124m 64 8 1024 bf16 5 --warm-up 2 "${any_order[@]}" --cuda "{\"algorithm_cache\": \"$work/algorithms\"}" || status=1
  workload gpt2-124m 1 1 64 bf16 50 || status=1
  return $status
}

# names_of PROGRAM [PREFIX]: prints the names of its tests, as filters.
names_of() {
  "$1" --gtest_list_tests 2>/dev/null | awk -v prefix="${2:-}" '/^[^ ].*\.$/ {suite = $1} /^ / {if (index(suite, prefix) == 1) print suite $1}'
}

# each_test PROGRAM MOST: runs each test in a process of its own. A test that hangs or breaks the GPU's
# context then does not affect the others.
each_test() {
  local path
  path=$(program "$1")
  names_of "$path" | while read -r test; do
    echo "$1-$(printf '%s' "$test" | tr '/' '.') $path --gtest_filter=$test"
  done | in_parallel "$2"
}

phase_ops() {
  local status=0 before
  before=$(wc -l <"$out/failures.txt")
  each_test device_cuda_op_cases_test 40 || status=1
  [ $status -ne 0 ] && command -v compute-sanitizer >/dev/null || return $status
  tail -n +$((before + 1)) "$out/failures.txt" | grep -oE '^device_cuda_op_cases_test-[^:]+' | head -4 | while read -r name; do
    sanitized_test memcheck "$(printf '%s' "${name#device_cuda_op_cases_test-}" | sed -E 's#^Table\.#Table/#; s#\.([^.]*)$#/\1#')"
  done | in_parallel 60
  return 1
}

# sanitized_test TOOL TEST: prints a line for in_parallel.
sanitized_test() {
  echo "$1-$(printf '%s' "$2" | tr '/' '.') compute-sanitizer --tool $1 --error-exitcode 1 $(program device_cuda_op_cases_test) --gtest_filter=$2"
}

phase_sanitize() {
  local tool test
  for tool in memcheck racecheck synccheck; do
    names_of "$(program device_cuda_op_cases_test)" Table/GpuOpCases. | while read -r test; do sanitized_test $tool "$test"; done
  done | in_parallel 120
}

# Reports the kernels of one step, with the time and the bytes of device memory that the hardware counts for
# each.
phase_profile() {
  local step=(--preset gpt2-124m --micro-batch 64 --accum 1 --sequence 1024) status=0
  measure hawser profile 60 "$(program bench_gpu_training)" "${step[@]}" --warm-up 1 --steps 1 --profile true || status=1
  measure hawser profile-small 60 "$(program bench_gpu_training)" "${step[@]:0:2}" --micro-batch 1 --accum 1 --sequence 64 \
    --warm-up 1 --steps 1 --profile true || status=1
  command -v ncu >/dev/null || { failed "profile: no ncu here"; return 1; }
  attempt ncu 100 ncu --csv --page raw --clock-control none --cache-control none --log-file "$logs/ncu.csv" \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum \
    "$(program bench_gpu_training)" "${step[@]}" --warm-up 0 --steps 1 --cuda '{"graphs": false}' || status=1
  return $status
}

phase_train() { each_test device_cuda_train_test "$patience"; }

# Runs every golden case in both precisions. Transformers' values are the reference.
phase_golden() {
  local folder precision
  for folder in tests/golden/cases/*/; do
    for precision in fp32 bf16; do
      echo "golden-$(basename "$folder")-$precision $(program golden_check) $folder --device cuda --precision $precision"
    done
  done | in_parallel 60
}

# `hawser plan` reports 101.2 GiB for llama-3.1-8b with rows of 8192, and 71.9 GiB with rows of 2048.
# PyTorch's Adam would need 120 GiB.
phase_large() {
  local status=0 gib
  workload gpt2-1558m 16 4 1024 bf16 3 --warm-up 2 || status=1
  workload gpt2-1558m 16 4 1024 bf16 3 --warm-up 2 "${any_order[@]}" || status=1
  workload gpt2-1558m 16 4 1024 fp8 3 --warm-up 2 "${any_order[@]}" || status=1
  gib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -1 | awk '{print int($1 / 1024)}')
  if [ "${gib:-0}" -ge 104 ]; then
    workload llama-3.1-8b 1 1 8192 bf16_pure 4 --warm-up 2 || status=1
    workload llama-3.1-8b 1 1 8192 bf16_pure 4 --warm-up 2 "${any_order[@]}" || status=1
    # bf16 and fp8 keep 18 bytes a parameter, 135 GiB for all 32 layers before activations, so 19 layers are trained.
    workload llama-3.1-8b 1 1 8192 bf16 4 --warm-up 2 --layers 19 "${any_order[@]}" || status=1
    workload llama-3.1-8b 1 1 8192 fp8 4 --warm-up 2 --layers 19 "${any_order[@]}" || status=1
  elif [ "${gib:-0}" -ge 75 ]; then
    workload llama-3.1-8b 1 1 2048 bf16_pure 8 --warm-up 2 "${any_order[@]}" || status=1
  else
    echo "   llama-3.1-8b needs 71.9 GiB with rows of 2048, and this GPU has ${gib:-an unknown number of} GiB: left out"
  fi
  return $status
}

# PyTorch takes a minute or two to compile.
phase_peer() {
  [ -f "$carry/torch_gpt.py" ] || { failed "peer: no torch_gpt.py in $carry"; return 1; }
  local status=0
  peer_workload gpt2-124m 64 8 1024 bf16 8 || status=1
  peer_workload gpt2-124m 1 1 64 bf16 50 || status=1
  peer_workload gpt2-1558m 16 4 1024 bf16 3 || status=1
  return $status
}
peer_workload() {
  say "PyTorch: $1, $2 x $4 x $3, $5"
  measure pytorch "$1-$2-$4" 150 env LD_LIBRARY_PATH="$host_libraries" python3 "$carry/torch_gpt.py" --device cuda --compile \
          --shape "$1" --batch "$2" --accum "$3" --seq "$4" --dtype "$5" --steps "$6"
}

# ---- running the phases ----

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader || fail "no GPU: nvidia-smi does not answer"
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
carry=$(realpath -m "$carry") build=$(realpath -m "$build")
PATH=$PATH:$(library_folders | head -1 | xargs dirname)/bin  # nvcc, ncu, compute-sanitizer
export LD_LIBRARY_PATH=$(library_folders | paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
{ nvidia-smi; nvcc --version; ncu --version; lscpu; echo "$LD_LIBRARY_PATH"; } >"$logs/machine.log" 2>&1
if [ -z "$programs" ] && ! unpack_programs; then
  say "build"
  configure_and_build || { collect; fail "the build failed; all of it is in build.log of $out/logs.tgz"; }
fi
status=0
IFS=, read -ra wanted <<<"${phases#,}"
for phase in "${wanted[@]}"; do
  declare -F "phase_$phase" >/dev/null || fail "no phase is called $phase (see --help)"
done
for phase in "${wanted[@]}"; do
  if [ $SECONDS -ge $deadline ]; then
    failed "phase $phase: not started: the script's time was over"
    status=1
    continue
  fi
  say "phase $phase"
  "phase_$phase" || status=1
  collect
done
collect
cat "$out/table.txt"
say "done; results in $out"
exit $status
