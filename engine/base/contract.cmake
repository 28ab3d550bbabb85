# hawser_build_id(VARIABLE HEADERS...): the build id, which must be equal in a core and its modules: version,
# compiler and a hash of the headers that both include (HEADERS: paths from the root of the tree).
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
