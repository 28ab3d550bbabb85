# Removes the files that the last `cmake --install` of this build folder wrote, for all components.
#   cmake -P uninstall.cmake          # run in the build folder
file(GLOB manifests ${CMAKE_CURRENT_BINARY_DIR}/install_manifest*.txt)
if(NOT manifests)
  message(FATAL_ERROR "${CMAKE_CURRENT_BINARY_DIR} has no install_manifest.txt: nothing was installed from it")
endif()
foreach(manifest IN LISTS manifests)
  file(STRINGS ${manifest} files)
  foreach(file IN LISTS files)
    file(REMOVE "$ENV{DESTDIR}${file}")
    message(STATUS "removed $ENV{DESTDIR}${file}")
  endforeach()
  file(REMOVE ${manifest})
endforeach()
