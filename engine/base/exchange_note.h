// ExchangeNote: what a dry run writes down of each exchange inside a block. Traffic is measured by doing, as memory is:
// the modules run, and what would be sent is counted.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser {

struct ExchangeNote {
  const char* group = "";      ///< "tp" or "cp": the ranks that take part
  const char* operation = "";  ///< as the ledger names it, such as "all_reduce" (comm/ledger.h)
  int64_t bytes = 0;           ///< that one rank sends, by the ring form of the operation
  double flops = 0;            ///< computed since the exchange before, or since the call began
};

/// What one call of a module exchanges, in order, and the clock of FLOPs by which it is written down.
struct ExchangeNotes {
  std::vector<ExchangeNote> list;
  double flops = 0;  ///< since the last note

  void add(const char* group, const char* operation, int64_t bytes) {
    list.push_back({group, operation, bytes, flops});
    flops = 0;
  }
};

/// Of all of them.
inline int64_t sent_bytes(const std::vector<ExchangeNote>& notes) {
  int64_t bytes = 0;
  for (const ExchangeNote& note : notes) bytes += note.bytes;
  return bytes;
}

}  // namespace hawser
