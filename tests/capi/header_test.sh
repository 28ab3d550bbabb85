#!/usr/bin/env bash
# hawser.h compiles alone, without a warning, as C99, C11 and C++20 under each compiler of this machine, and holds
# nothing that a binding generator would stumble over.
#   header_test.sh HEADER
set -euo pipefail
header=$1
status=0

check() { # compiler language standard
  command -v "$1" >/dev/null || { echo "no $1"; return; }
  echo "#include \"$header\"" |
    "$1" -x "$2" -std="$3" -Wall -Wextra -pedantic -Werror -fsyntax-only - && echo "$1 $3" || status=1
}
for compiler in gcc clang; do
  check "$compiler" c c99
  check "$compiler" c c11
  check "${compiler/gcc/g}++" c++ c++20
done

# Comments out, lines joined: what is left is declarations.
code=$(sed -e 's/\\$//' "$header" | tr '\n' ' ' | sed -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g')
for word in inline bool enum union long '\.\.\.' static; do
  if grep -qw -- "$word" <<<"$code"; then echo "hawser.h uses $word"; status=1; fi
done
if grep -qE '^ *# *define +[A-Za-z_]+\(' "$header"; then echo "hawser.h has a macro with arguments"; status=1; fi
if grep -E '^ *# *include' "$header" | grep -qvE '<std(def|int)\.h>'; then echo "hawser.h includes more"; status=1; fi
exit $status
