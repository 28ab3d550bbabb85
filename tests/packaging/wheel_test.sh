#!/usr/bin/env bash
# Tests the wheel as a user would: installs it without network into a new environment, trains, and runs its command.
# SYSTEM
# is a Debian suite, whose Python is used in a fresh root, or a Python of this machine.
#   wheel_test.sh DIST SOURCE_FOLDER SYSTEM
set -euo pipefail
dist=$1 source=$2 system=$3
[ "$(id -u)" = 0 ] || { echo "skipped: a fresh root takes root's rights"; exit 77; }
source "$source/packaging/install_packages.sh"
install_packages mmdebstrap bubblewrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "wheel_test.sh: $*" >&2; exit 1; }

wheel=$(ls "$dist"/hawser_train-*.whl)
[[ $wheel =~ cp311-abi3-manylinux_2_(2[0-9]|3[0-4])_x86_64\.whl$ ]] || fail "$wheel is not for glibc 2.34 and older"
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le $((13 << 18)) ] || fail "the wheel has $bytes bytes, more than 3.25 MB"
python3 -m zipfile --list "$wheel" >"$work/entries"
for file in LICENSE THIRD_PARTY.txt hawser.spdx.json libhawser.so.0 bin/hawser; do
  grep "^hawser/$file " "$work/entries" >/dev/null || fail "no $file in the wheel"
done
echo "$(basename "$wheel"): $bytes bytes"
text=$(ls "$dist"/hawser_train_text-*.whl)
[[ $text =~ py3-none-manylinux_2_34_x86_64\.whl$ ]] || fail "$text is not for glibc 2.34"

mkdir "$work/in"
cp "$wheel" "$text" "$work/in"
cp "$source/LICENSE" "$work/in/text.txt"
cat >"$work/in/train.py" <<'PYTHON'
import sys
import hawser

config = {"model": {"vocab_size": 256, "context": 32, "layers": 1, "width": 32, "heads": 2},
          "data": {"path": "/in/text.txt", "vocabulary": "bytes"}, "train": {"steps": 30}}
with hawser.Engine(config) as engine:
    losses = [record.loss for record in engine.steps()]
assert len(losses) == 30 and losses[-1] < losses[0], losses
try:
    hawser.Config({"model": {"width": "wide"}})
except ValueError as error:
    assert isinstance(error, hawser.Error)
else:
    sys.exit("a wrong config was taken")
print(f"Python {sys.version.split()[0]}: hawser {hawser.__version__}, loss {losses[0]:.3f} to {losses[-1]:.3f}")
PYTHON
cat >"$work/in/install.sh" <<'SH'
set -e
"$1" -m venv /tmp/environment
/tmp/environment/bin/pip install --quiet --no-index --disable-pip-version-check --find-links /in 'hawser-train[text]'
cd /tmp
/tmp/environment/bin/python /in/train.py
/tmp/environment/bin/hawser --version
/tmp/environment/bin/python -m hawser presets >/tmp/presets
grep gpt2-124m /tmp/presets >/dev/null
SH
alone=(--tmpfs /tmp --ro-bind "$work/in" /in --dev /dev --proc /proc --unshare-net --setenv PATH /usr/bin:/bin)
if [[ $system == */* ]]; then
  [ -x "$system" ] || { echo "skipped: no $system"; exit 77; }
  bwrap --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin \
    --ro-bind "$(dirname "$(dirname "$system")")" "$(dirname "$(dirname "$system")")" "${alone[@]}" sh /in/install.sh "$system"
else
  mmdebstrap --quiet --mode=root --variant=minbase --include=python3-venv "$system" "$work/root"
  mkdir -p "$work/root/in"
  bwrap --bind "$work/root" / "${alone[@]}" sh /in/install.sh python3
fi
