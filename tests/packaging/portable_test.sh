#!/usr/bin/env bash
# Tests that the portable packages (tarball, conda, wheel, jar) need only glibc 2.34 and no libstdc++. For a build that
# links
# libstdc++ dynamically, only the glibc version is checked.
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
