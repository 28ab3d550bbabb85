#!/usr/bin/env bash
# What the portable packages (tarball, conda, wheel, jar) may ask of a system: glibc 2.34 and no libstdc++. A build that links
# libstdc++ dynamically is held to its glibc alone.
#   portable_test.sh FILE...
set -euo pipefail
status=0
for file in "$@"; do
  symbols=$(objdump -T "$file")
  glibc=$(grep -oE 'GLIBC_[0-9.]+' <<<"$symbols" | sort -uV | tail -1)
  [ "$(printf '%s\n' "$glibc" GLIBC_2.34 | sort -V | tail -1)" = GLIBC_2.34 ] || { echo "$file wants $glibc"; status=1; }
  echo "$(basename "$file"): $glibc, $(readelf -d "$file" | grep -c 'NEEDED.*libstdc++' || true) libstdc++"
done
exit $status
