// Nothing but gtest.h, which tests/CMakeLists.txt has compiled once for all tests.
