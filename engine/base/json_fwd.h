// The names of JSON values, for headers that only pass them on: json.h takes longer to compile than most
// files that would include it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hawser {

template <typename T>
struct JsonAllocator;

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, double,
                                  JsonAllocator>;  ///< keys sorted
using OrderedJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t,
                                         uint64_t, double, JsonAllocator>;  ///< keys in the order of
                                                                            ///< insertion

}  // namespace hawser
