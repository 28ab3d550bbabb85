#!/usr/bin/env bash
# Makes a static site of the project's pages, which can be read and searched without a network or a server.
#
#   packaging/docs.sh FOLDER
#
# FOLDER gets the site (FOLDER/index.html); an existing site there is replaced. The site has every page of the source
# tree, the config's fields from capi/schema, and, as text, the source files that pages refer to. A link to a page, file
# or heading that does not exist is an error.
#
# Needs python3 with venv, and PyPI and npm's registry for the first run: mkdocs-material, and the script that lets search
# run without a server (iframe-worker), go into an environment of the user's cache.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/install_packages.sh"

fail() { echo "docs.sh: $*" >&2; exit 2; }

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  "" | -*) fail "name the folder of the site (see --help)" ;;
esac
[ $# -eq 1 ] || fail "name one folder (see --help)"
site=$(realpath -m "$1")
if [ -e "$site" ] && [ ! -e "$site/sitemap.xml" ]; then fail "$site exists and is not a site that this script made"; fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

versions=(mkdocs==1.6.1 mkdocs-material==9.6.23)
environment=${XDG_CACHE_HOME:-$HOME/.cache}/hawser/docs-${versions[1]##*=}
if [ ! -e "$environment/complete" ]; then
  python3 -m venv --help >/dev/null 2>&1 || install_packages python3-venv
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}" ||
    fail "PyPI is not within reach, and the site needs ${versions[*]} from there"
  python3 - "$environment/iframe-worker.js" <<'PYTHON' || fail "npm's registry is not within reach, and search needs iframe-worker from there"
import hashlib, io, sys, tarfile, urllib.request
address = "https://registry.npmjs.org/iframe-worker/-/iframe-worker-1.0.4.tgz"
with urllib.request.urlopen(address, timeout=60) as answer:
    package = answer.read()
with tarfile.open(fileobj=io.BytesIO(package)) as archive:
    shim = archive.extractfile("package/shim/index.js").read()
if hashlib.sha256(shim).hexdigest() != "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609":
    sys.exit(f"{address} has other contents than expected")
open(sys.argv[1], "wb").write(shim)
PYTHON
  touch "$environment/complete"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$root/packaging/docs_pages.py" "$root" "$work"
mkdir "$work/pages/scripts"
cp "$environment/iframe-worker.js" "$work/pages/scripts/"
cd "$work"
"$environment/bin/mkdocs" build --strict --site-dir "$site"  # with --quiet, it would not count warnings
echo "$site/index.html"
