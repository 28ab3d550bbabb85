# Defines the tests of the Java binding. Maven runs JUnit on the classes that the build has compiled.
# hawser_java_test(NAME CLASSES ...) runs test classes. VM gives more arguments for the VM, ENVIRONMENT variables of the
# form NAME=VALUE.
function(hawser_java_test name)
  cmake_parse_arguments(ARG "" "VM;TIMEOUT" "CLASSES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  list(JOIN ARG_CLASSES "," classes)
  add_test(NAME ${name} COMMAND ${maven} surefire:test -Dtest=${classes} "-Dhawser.vm=${ARG_VM}" "-Dhawser.preload=${HAWSER_PRELOAD}"
           -Dsurefire.reportNameSuffix=${name})
  set_tests_properties(${name} PROPERTIES LABELS "bindings;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                       FIXTURES_REQUIRED binding_losses RESOURCE_LOCK java_maven
                       ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

set(all_but_vms EngineTest BadInputTest ThreadTest StateTest CommTest CompleteTest)
hawser_java_test(java_test CLASSES ${all_but_vms})
if(HAWSER_PRELOAD)  # the VM handles SIGSEGV itself and does not free all memory at exit
  set_tests_properties(java_test PROPERTIES LABELS "bindings;quick" ENVIRONMENT "ASAN_OPTIONS=handle_segv=0:detect_leaks=0")
  return()
endif()
# Runs the tests with JNI's own checks, whose warnings fail the test too. The VM writes them to stderr, because Maven
# hides what a VM prints on stdout.
hawser_java_test(java_check_jni_test CLASSES ${all_but_vms} VM "-Xcheck:jni -XX:+DisplayVMOutputToStderr")
set_tests_properties(java_check_jni_test PROPERTIES FAIL_REGULAR_EXPRESSION "WARNING in native;WARNING: JNI;FATAL ERROR")
hawser_java_test(java_natives_test CLASSES NativesTest)
hawser_java_test(java_exit_test CLASSES ExitTest)
hawser_java_test(java_lifetime_test CLASSES LifetimeTest TIMEOUT 1800)
# The loader prefers this folder's copy of the library, beside which is an emulated GPU with faults.
hawser_java_test(java_gpu_faults_test CLASSES GpuFaultsTest
                 ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/gpu_faults HAWSER_GPU_FAULT=${CMAKE_CURRENT_BINARY_DIR}/gpu_fault)
hawser_java_test(java_examples_test CLASSES ExamplesTest)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME java_service_test
         COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/bindings/service_test.py
                 ${Java_JAVA_EXECUTABLE} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dhawser.library.path=${natives}
                 -cp ${CMAKE_CURRENT_BINARY_DIR}/maven/classes:${CMAKE_CURRENT_BINARY_DIR}/examples service.Service)
set_tests_properties(java_service_test PROPERTIES LABELS bindings TIMEOUT 300)
# Runs the tests with Java 25 too, if it is installed.
file(GLOB newest /usr/lib/jvm/*-25-*)
if(newest)
  hawser_java_test(java_25_test CLASSES ${all_but_vms} NativesTest
                   VM "--enable-native-access=org.hawser" ENVIRONMENT JAVA_HOME=${newest})
endif()
