# Writes OUT, a source with the git commit of the tree SOURCE: COMMIT if it is not empty, "unknown" if SOURCE is no
# checkout, such as an unpacked archive (even inside another checkout). An equal file is left as it is.
if(NOT COMMIT)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel --short=12 HEAD
                  OUTPUT_VARIABLE said RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" said "${said}")
  list(LENGTH said lines)
  set(COMMIT unknown)
  if(status EQUAL 0 AND lines EQUAL 2)
    list(GET said 0 top)
    file(REAL_PATH ${SOURCE} SOURCE)
    if(top STREQUAL SOURCE)
      list(GET said 1 COMMIT)
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
// The commit from which the command was built. bindings/cli/commit.cmake writes this file.
#include "bindings/cli/version.h"

namespace hawser::cli {

const char* const kCommit = "@COMMIT@";

}  // namespace hawser::cli
]] @ONLY)
