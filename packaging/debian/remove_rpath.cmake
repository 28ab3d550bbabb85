# Run paths are for trees that move; Debian packages have none. cmake -DFILE=... -P
file(RPATH_REMOVE FILE ${FILE})
