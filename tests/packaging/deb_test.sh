#!/usr/bin/env bash
# Tests the Debian packages: lintian must find no error, and the packages' own tests (debian/tests) install and run them
# in a
# fresh root of a suite.
#   deb_test.sh DIST SOURCE_FOLDER SUITE
set -euo pipefail
dist=$1 source=$2 suite=$3
[ "$(id -u)" = 0 ] || { echo "skipped: a fresh root takes root's rights"; exit 77; }
source "$source/packaging/install_packages.sh"
install_packages lintian mmdebstrap autopkgtest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "deb_test.sh: $*" >&2; exit 1; }

lintian --allow-root --fail-on error "$dist"/hawser_*.changes || fail "lintian finds errors"
for package in libhawser0 libhawser-dev libhawser-text0 hawser; do
  compgen -G "$dist/${package}_*.deb" >/dev/null || fail "no $package in $dist"
done

# The root already contains the packages that the tests need, which saves installing them later.
mmdebstrap --quiet --mode=root --variant=minbase --skip=cleanup/apt/lists \
  --include=dpkg-dev,gcc,libc6-dev,libstdc++6,pkg-config,python3 "$suite" "$work/root"
mkdir -p "$work/tree"
cp -a "$source/packaging/debian" "$work/tree/debian"
deb=$(ls "$dist"/hawser_*.deb)
{
  echo "hawser ($(dpkg-deb -f "$deb" Version)) unstable; urgency=medium"
  printf '\n  * Test.\n\n -- %s  %s\n' "$(dpkg-deb -f "$deb" Maintainer)" "$(date -R)"
} >"$work/tree/debian/changelog"
ls "$dist"/*.deb | grep -v dbgsym >"$work/debs"
# shellcheck disable=SC2046  # file names of packages contain no blanks
autopkgtest --no-built-binaries $(cat "$work/debs") "$work/tree/" --output-dir "$work/output" -- chroot "$work/root" \
  >"$work/log" 2>&1 || { tail -20 "$work/log" "$work"/output/*-std{out,err}; fail "$suite: a test of the packages failed"; }
cat "$work/output/summary"
