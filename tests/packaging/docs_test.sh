#!/usr/bin/env bash
# Makes the site of the pages and checks it: docs_test.sh SOURCE. Pages with a broken link or heading are refused.
# Skipped (77) if PyPI is not within reach.
set -euo pipefail

source_tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "docs_test.sh: $*" >&2; exit 1; }

bash "$source_tree/packaging/docs.sh" "$work/site" >"$work/said" 2>&1 || {
  cat "$work/said"
  grep -q "is not within reach" "$work/said" && exit 77
  fail "the site was not made"
}
for page in index.html capi/schema.html capi/errors.html engine/parallel/index.html search/search_index.js; do
  [ -s "$work/site/$page" ] || fail "the site lacks $page"
done
grep -q "zero" "$work/site/search/search_index.js" || fail "the search index has no words of the pages"
for field in micro_batch sample_tokens max_isa; do
  grep -q "<code>$field</code>" "$work/site/capi/schema.html" || fail "capi/schema.html lacks $field"
done
if grep -rE --include=*.html '<script[^>]*src="?(https?:)?//|<link[^>]*rel="?(stylesheet|icon|preload)[^>]*href="?(https?:)?//' "$work/site" ||
  grep -rE --include=*.css '(url\(|@import) *["'"'"']?(https?:)?//' "$work/site"; then
  fail "these pages load files from the network"
fi
if command -v chromium >/dev/null; then  # search works from a file, without a server
  timeout 100 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --virtual-time-budget=20000 \
    --dump-dom "file://$work/site/index.html?q=pipeline" >"$work/found.html" 2>/dev/null || fail "chromium failed"
  grep -qE '[0-9]+ matching documents' "$work/found.html" || fail "the search finds no page about pipelines"
fi

mkdir "$work/tree"
(cd "$source_tree" && tar -c --exclude='./build*' --exclude='./.git' --exclude='*.bin' .) | tar -x -C "$work/tree"
cp "$work/tree/README.md" "$work/README.md"
for broken in "[a](engine/no_such_file.h)" "[a](engine/README.md#no-such-heading)"; do
  { cat "$work/README.md"; echo "$broken"; } >"$work/tree/README.md"
  if bash "$work/tree/packaging/docs.sh" "$work/broken" >"$work/said" 2>&1; then fail "$broken was accepted"; fi
  grep -qE "no_such_file|no-such-heading" "$work/said" || fail "the error of $broken does not name it: $(cat "$work/said")"
done
echo "the site is whole"
