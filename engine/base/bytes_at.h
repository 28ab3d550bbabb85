// Address arithmetic in an untyped array of bytes.
#pragma once

#include <cstdint>

namespace hawser {

inline const char* bytes_at(const void* p, int64_t offset) { return static_cast<const char*>(p) + offset; }
inline char* bytes_at(void* p, int64_t offset) { return static_cast<char*>(p) + offset; }

}  // namespace hawser
