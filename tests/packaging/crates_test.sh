#!/usr/bin/env bash
# Tests the crates from an outside crate, in a fresh bookworm root with libhawser-dev, without network, with this
# machine's
# toolchain and crates. The outside crate must find the library by pkg-config, and train.
#   crates_test.sh DIST SOURCE_FOLDER
set -euo pipefail
dist=$1 source=$2
[ "$(id -u)" = 0 ] || { echo "skipped: a fresh root takes root's rights"; exit 77; }
source "$source/packaging/install_packages.sh"
install_packages mmdebstrap bubblewrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "crates_test.sh: $*" >&2; exit 1; }

outside=$work/outside
mkdir -p "$outside/src" "$outside/crates"
for crate in "$dist"/crates/*.crate; do tar -C "$outside/crates" -xf "$crate"; done
folders=("$outside"/crates/hawser-train-[0-9]* "$outside"/crates/hawser-train-sys-*)
for folder in "${folders[@]}"; do [ -s "$folder/LICENSE" ] || fail "no licence in $folder"; done
cat >"$outside/Cargo.toml" <<TOML
[package]
name = "outside"
version = "1.0.0"
edition = "2021"
[dependencies]
hawser-train = "0.1"
serde_json = "1"
[patch.crates-io]
hawser-train = { path = "crates/$(basename "${folders[0]}")" }
hawser-train-sys = { path = "crates/$(basename "${folders[1]}")" }
TOML
cat >"$outside/src/main.rs" <<'RUST'
fn main() -> hawser::Result<()> {
    let config = hawser::Config::from_value(&serde_json::json!({
        "model": {"vocab_size": 256, "context": 32, "layers": 1, "width": 32, "heads": 2},
        "data": {"path": "text.txt", "vocabulary": "bytes"},
        "train": {"steps": 30}
    }))?;
    let mut engine = hawser::Engine::new(&config)?;
    let mut losses = Vec::new();
    engine.train_with(None, |record, _| {
        losses.push(record.loss);
        std::ops::ControlFlow::Continue(())
    })?;
    println!("{} steps, loss {:.3} to {:.3}", losses.len(), losses[0], losses[losses.len() - 1]);
    assert!(losses.len() == 30 && losses[29] < losses[0]);
    engine.export("model", hawser::ExportType::Bf16)
}
RUST
cp "$source/LICENSE" "$outside/text.txt"
cp "$source/bindings/rust/Cargo.lock" "$outside"

root=$work/root
mmdebstrap --quiet --mode=root --variant=minbase --include=gcc,libc6-dev,pkg-config,libstdc++6 bookworm "$root"
mkdir -p "$root/packages" "$root/outside" "$root/cargo" "$root/rustup"
cp "$dist"/libhawser0_*.deb "$dist"/libhawser-dev_*.deb "$root/packages"
chroot "$root" sh -c 'dpkg --install packages/*.deb' >"$work/log" 2>&1 || { cat "$work/log"; fail "dpkg --install"; }
bwrap --bind "$root" / --dev /dev --proc /proc --tmpfs /tmp --bind "$outside" /outside --chdir /outside --unshare-net \
  --ro-bind "$(rustc --print sysroot)" /rustup --ro-bind "${CARGO_HOME:-$HOME/.cargo}/registry" /cargo/registry \
  --setenv CARGO_HOME /cargo --setenv PATH /rustup/bin:/usr/bin:/bin cargo run --quiet --offline ||
  fail "the outside crate"
[ -s "$outside/model/config.json" ] || fail "nothing was exported"
