# Tests of the Java binding: JUnit by Maven, on the classes that the build has compiled.
# java_test(NAME GROUP-OR-TEST... ) runs test classes; VM: more arguments of the VM.
function(hawser_java_test name)
  cmake_parse_arguments(ARG "" "VM;JAVA_HOME;TIMEOUT" "CLASSES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  list(JOIN ARG_CLASSES "," classes)
  add_test(NAME ${name} COMMAND ${maven} surefire:test -Dtest=${classes} "-Dhawser.vm=${ARG_VM}"
           -Dsurefire.reportNameSuffix=${name})
  set_tests_properties(${name} PROPERTIES LABELS "bindings;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                       FIXTURES_REQUIRED binding_losses
                       ENVIRONMENT "${ARG_JAVA_HOME}")
endfunction()

hawser_java_test(java_engine CLASSES EngineTest)
