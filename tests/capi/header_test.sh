#!/usr/bin/env bash
# Tests that hawser.h compiles alone, without a warning, as C99, C11 and C++20 with each compiler of this machine, and
# that it contains nothing that binding generators cannot process.
#   header_test.sh HEADER
set -euo pipefail
header=$1
status=0

check() { # COMPILER LANGUAGE STANDARD
  command -v "$1" >/dev/null || { echo "no $1"; return; }
  echo "#include \"$header\"" |
    "$1" -x "$2" -std="$3" -Wall -Wextra -pedantic -Werror -fsyntax-only - && echo "$1 $3" || status=1
}
for compiler in gcc clang; do
  check "$compiler" c c99
  check "$compiler" c c11
  check "${compiler/gcc/g}++" c++ c++20
done

# Removes comments and joins lines, so that only declarations remain.
code=$(sed -e 's/\\$//' "$header" | tr '\n' ' ' | sed -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g')
for word in inline bool enum union long '\.\.\.' static; do
  if grep -qw -- "$word" <<<"$code"; then echo "hawser.h uses $word"; status=1; fi
done
if grep -qE '^ *# *define +[A-Za-z_]+\(' "$header"; then echo "hawser.h has a macro with arguments"; status=1; fi
if grep -E '^ *# *include' "$header" | grep -qvE '<std(def|int)\.h>'; then echo "hawser.h includes more"; status=1; fi
# Tests that every name is allowed as a name in the languages of the bindings.
python3 - "$header" <<'PYTHON' || status=1
import keyword, re, sys

code = re.sub(r"/\*.*?\*/", " ", open(sys.argv[1]).read(), flags=re.S)
code = re.sub(r"^ *#.*$", " ", code, flags=re.M)
names = set(re.findall(r"[A-Za-z_]\w*", code)) - set("const double char extern float int struct typedef void".split())
taken = set(keyword.kwlist) | set("match case type".split())  # Python
taken |= set("""alignas alignof and asm auto bool break case catch char16_t char32_t char8_t class co_await co_return
co_yield compl concept const_cast consteval constexpr constinit continue decltype default delete do dynamic_cast else
enum explicit export false for friend goto if inline mutable namespace new noexcept not nullptr operator or private
protected public register reinterpret_cast requires return sizeof static static_assert static_cast switch template this
thread_local throw true try typeid typename union using virtual volatile wchar_t while xor""".split())  # C++
taken |= set("""abstract assert boolean byte extends final finally implements import instanceof interface native
package strictfp super synchronized throws transient""".split())  # Java
taken |= set("""as async await become box crate dyn fn impl in let loop macro mod move mut override priv pub ref self
static trait try unsafe unsized use where""".split())  # Rust
found = sorted(names & taken)
if found: sys.exit(f"hawser.h has names that are keywords elsewhere: {', '.join(found)}")
PYTHON

# Tests the rules for binding generators: documentation that they copy, plain constants, one type for statuses.
python3 - "$header" <<'PYTHON' || status=1
import re, sys

lines = open(sys.argv[1]).read().split("\n")
bad = []
for at, line in enumerate(lines):
    if re.match(r"HWS_API int32_t", line): bad.append(f"{at + 1}: returns int32_t, not hws_status")
    if re.match(r"#define HWS_\w+ ", line) and not re.match(r"#define HWS_\w+ +-?\d+( +/\*\*<|$)", line):
        if "HWS_API" not in line: bad.append(f"{at + 1}: no plain integer, or a comment that is no /**<")
    if line.endswith("*/") or line.startswith("HWS_API"):
        above = at
        while above > 0 and "/*" not in lines[above]: above -= 1
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.endswith("*/") and re.match(r"HWS_API|typedef struct \w+ \{", following):
            if not lines[above].startswith("/**"): bad.append(f"{above + 1}: a comment of a declaration that is no /**")
for problem in bad: print(f"hawser.h:{problem}")
sys.exit(bool(bad))
PYTHON
exit $status
