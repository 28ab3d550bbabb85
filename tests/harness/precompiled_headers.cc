// An empty source for the headers that tests/CMakeLists.txt precompiles once for all tests.
