# Removes the run path of FILE, because only trees that move need run paths. Usage:
#   cmake -DFILE=... -P remove_rpath.cmake
file(RPATH_REMOVE FILE ${FILE})
