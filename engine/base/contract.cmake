# hawser_build_id(VARIABLE HEADERS...) sets VARIABLE to an id that a core and its modules must share. The id covers the
# version, the compiler and the headers of their contract (paths from the root of the tree).
function(hawser_build_id variable)
  set(hashes "")
  foreach(header ${ARGN})
    file(SHA256 ${PROJECT_SOURCE_DIR}/${header} hash)
    string(APPEND hashes ${hash})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  endforeach()
  string(SHA256 contract "${hashes}")
  string(SUBSTRING ${contract} 0 16 contract)
  set(${variable} "${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${contract}" PARENT_SCOPE)
endfunction()
