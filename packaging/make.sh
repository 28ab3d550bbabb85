#!/usr/bin/env bash
# Makes Hawser's packages from a clean tree, on Debian bookworm as root or with sudo, into dist/.
#
#   packaging/make.sh [--arch ARCHITECTURE] [KIND...]
#
#   ARCHITECTURE   amd64 (default) or arm64, which Debian's cross compiler builds. Packages of the other architecture stay
#                  in the output folder
#   KIND           tarball, deb, conda, wheel, jar or crates; without KIND, the script makes all of them. Crates are
#                  source, the same for every architecture, so --arch arm64 makes none
#
# Variables: HAWSER_DIST      output folder (default: dist/)
#            HAWSER_JOBS      number of compilers that run at once (default: one per processor)
#            HAWSER_BUILD     a finished build folder of this tree. The script then packages its files and compiles
#                             nothing. This is for tests: such a library needs the libstdc++ that it was built with.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kinds=(tarball deb conda wheel jar crates)

case "${1:-}" in
  --arch)
    [ $# -gt 1 ] || { echo "make.sh: --arch needs a value: amd64 or arm64" >&2; exit 2; }
    export HAWSER_ARCH=$2
    shift 2
    ;;
  -h | --help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    for kind in "${kinds[@]}"; do sed -n "2s/^#/$kind:/p" "$folder/$kind.sh"; done
    exit 0
    ;;
esac
[ "${HAWSER_ARCH:-amd64}" = amd64 ] || kinds=(tarball deb conda wheel jar)
for kind in "$@"; do
  [ -f "$folder/$kind.sh" ] && [[ " ${kinds[*]} " == *" $kind "* ]] ||
    { echo "make.sh: unknown kind $kind; known: ${kinds[*]}" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "${kinds[@]}"
export HAWSER_DIST=${HAWSER_DIST:-$folder/../dist}
mkdir -p "$HAWSER_DIST"
HAWSER_DIST=$(cd "$HAWSER_DIST" && pwd)
for kind in "$@"; do
  echo "==== $kind"
  bash "$folder/$kind.sh"
done
