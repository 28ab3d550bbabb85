# Fails if PROGRAM, of GoogleTest, has a test that the filter LISTED does not select: ctest would never run it.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests "--gtest_filter=-${LISTED}" OUTPUT_VARIABLE output
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n  [^\n]+" unlisted "${output}")
if(unlisted)
  message(FATAL_ERROR "No test of ctest runs these of ${PROGRAM}:\n${output}")
endif()
