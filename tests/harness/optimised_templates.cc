// Optimised templates: strings and vectors, compiled with optimisation and linked before all other objects of
// a test. Most tests are compiled with -O0, because that is fast, and the linker takes each function of a
// class template from the first object that has it. Without this file the library's strings would run
// unoptimised in every test, which takes a quarter to a half of the time of tests that create engines.
#include <cstdint>
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::vector<char>;
template class std::vector<float>;
template class std::vector<double>;
template class std::vector<int32_t>;
template class std::vector<int64_t>;
template class std::vector<std::string>;
