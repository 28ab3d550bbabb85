#!/usr/bin/env bash
# Unpacks Debian's Python and Java for 64-bit Arm, with everything that they need, into a folder of the user's cache, and
# prints the folder. The headers of Python are for the cross build of our module. The programs run by
# `qemu-aarch64 -L FOLDER FOLDER/usr/bin/python3`. Nothing is installed: an unpacked folder needs no chroot, and does not
# change the packages of this machine. Needs Debian bookworm, as root or with sudo for a missing mmdebstrap.
#
#   packaging/arm64_root.sh        280 MB on disk, 100 MB to fetch, the first time
set -euo pipefail
packages=python3,libpython3-dev,openjdk-17-jre-headless,libstdc++6,libsodium23
folder=${XDG_CACHE_HOME:-$HOME/.cache}/hawser/arm64-root-$(cksum <<<"$packages" | tr ' ' -)
if [ ! -d "$folder" ]; then
  source "$(dirname "${BASH_SOURCE[0]}")/install_packages.sh"
  install_packages mmdebstrap >&2
  mkdir -p "$(dirname "$folder")"
  new=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  [ "$(id -u)" = 0 ] && mode=root || mode=unshare
  mmdebstrap --quiet --mode=$mode --variant=extract --architectures=arm64 "--include=$packages" bookworm "$new/root" >&2
  # The folder is renamed when it is complete, so that nobody sees a part of it.
  mv -T "$new/root" "$folder" 2>/dev/null || [ -d "$folder" ]
fi
echo "$folder"
