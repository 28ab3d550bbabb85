// Digests of what is stored: XXH3, 128 bits. They find accidents (flipped bits, torn or swapped files), not
// forgeries.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace hawser::checkpoint {

class Digest {
 public:
  Digest();
  ~Digest();
  void add(const void* data, int64_t bytes);
  std::string text() const;  ///< "xxh3-128:" and 32 hex digits
  static std::string of(const void* data, int64_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hawser::checkpoint
