#!/usr/bin/env bash
# Trains one model on two simulated hosts of one machine: network namespaces, joined by a virtual cable, with real
# addresses.
#
#   bash packaging/two_hosts.sh HAWSER [all | trains | cut | slow]
#
#   trains  two ranks with a secret on 10.77.0.1 and 10.77.0.2; the metrics are those of two ranks in one process
#   cut     the cable is cut during training: both ranks report the other within the deadline, and the run resumes from
#           its checkpoint
#   slow    the cable carries 20 Mbit/s: training is slower, but the metrics are the same
#
# Exits with 77 if namespaces are not permitted. Leaves nothing behind.
set -euo pipefail
hawser=$(readlink -f "${1:?the hawser command}")
what=${2:-all}
if [ -z "${HAWSER_TWO_HOSTS:-}" ]; then
  export HAWSER_TWO_HOSTS=1
  # The middle of the cable needs a network namespace; without root, it needs a user namespace too.
  [ "$(id -u)" = 0 ] && try=(unshare -n -m) || try=(unshare -r -n -m)
  "${try[@]}" true 2>/dev/null || { echo "network namespaces are not permitted here"; exit 77; }
  exec "${try[@]}" bash "$0" "$hawser" "$what"
fi

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT
cd "$folder"
# A host is a process that keeps a network namespace alive; `on 0 COMMAND` runs a command on host 0.
hosts=()
for i in 0 1; do unshare -n sleep 600 & hosts+=($!); done
on() { local host=$1; shift; nsenter -t "${hosts[$host]}" -n "$@"; }
for i in 0 1; do
  while [ "$(readlink /proc/self/ns/net)" = "$(readlink "/proc/${hosts[$i]}/ns/net")" ]; do sleep 0.01; done
done
ip link add cable0 type veth peer name cable1 || { echo "veth is not there"; exit 77; }
for i in 0 1; do
  ip link set "cable$i" netns "${hosts[$i]}"
  on $i ip addr add "10.77.0.$((i + 1))/24" dev "cable$i"
  on $i ip link set "cable$i" up
  on $i ip link set lo up
done

umask 077
head -c 32 /dev/urandom | base64 > secret
for _ in $(seq 300); do echo "the rope pulls a ship along the quay and back"; done > text.txt
cat > config.json <<'JSON'
{"seed": 3, "model": {"context": 32, "layers": 1, "width": 64, "heads": 2},
 "data": {"path": "text.txt", "format": "text", "vocabulary": "bytes"},
 "batch": {"micro_batch": 2}, "mesh": {"dp_shard": 2}, "zero": {"stage": 3}, "cpu": {"threads": 1},
 "train": {"steps": 20, "eval_every": 0, "log_every": 10}, "checkpoint": {"every": 10, "keep_last": 2}}
JSON

fail() { echo "FAILED: $*"; tail -n 3 err.* 2>/dev/null; exit 1; }
# Starts each rank r in the background on host r; its pid is ${ranks[r]}.
start() {
  ranks=()
  for r in 0 1; do
    on $r "$hawser" train "$@" --comm 10.77.0.1:29500 --rank $r --world 2 --secret-file secret --dead-after 2 \
      >"out.$r" 2>"err.$r" & ranks+=($!)
  done
}
finish() { for r in 0 1; do wait "${ranks[$r]}" || fail "rank $r of $1"; done; }
rows() { sed -E 's/"(seconds|tokens_per_second)":[^,}]*,?//g' "$1/metrics.jsonl"; }
same_rows() { [ "$(rows "$1")" = "$(rows "$2")" ] || fail "$1 and $2 differ"; }

"$hawser" train config.json --out local >out.local
run_trains() {
  if on 1 "$hawser" train config.json --comm 10.77.0.1:29500 --rank 1 --world 2 2>err.1; then fail "no secret, and it went on"; fi
  grep -q "without a secret" err.1 || fail "no word of the missing secret"
  start config.json --out wire
  finish wire
  same_rows wire local
  echo "two hosts: the metrics of two local ranks"
}
run_cut() {
  start config.json --out cutoff --set /train/steps=100000 --set /checkpoint/every=50
  until ls cutoff/checkpoints/step-*/manifest.json >/dev/null 2>&1; do sleep 0.05; done
  local begin=$SECONDS
  on 1 ip link set cable1 down
  for r in 0 1; do wait "${ranks[$r]}" && fail "rank $r went on over a cut cable"; done
  local took=$((SECONDS - begin))
  [ $took -le 12 ] || fail "it took $took s to notice"
  grep -q "rank 1 of 2 sent no heartbeat for 2 s" err.0 || fail "rank 0 does not name rank 1"
  grep -q "rank 0 of 2 sent no heartbeat for 2 s" err.1 || fail "rank 1 does not name rank 0"
  on 1 ip link set cable1 up
  local step
  step=$("$hawser" inspect cutoff --json | grep -oE '"step": ?[0-9]+' | head -1 | grep -oE '[0-9]+')
  start --resume cutoff --set "/train/steps=$((step + 5))"
  finish resumed
  echo "a cut cable: noticed within $took s by both, resumed from step $step"
}
run_slow() {
  on 0 tc qdisc add dev cable0 root tbf rate 20mbit burst 16kb latency 400ms 2>/dev/null &&
    on 1 tc qdisc add dev cable1 root tbf rate 20mbit burst 16kb latency 400ms 2>/dev/null ||
    { echo "a slow cable: skipped, this kernel has no tbf"; return; }
  start config.json --out crawl
  finish crawl
  same_rows crawl local
  for i in 0 1; do on $i tc qdisc del dev "cable$i" root; done
  echo "a slow cable: the same metrics"
}
if [ "$what" = all ]; then run_trains; run_slow; run_cut; else "run_$what"; fi
