// ExchangeNote: what a dry run writes down of each exchange inside a block. Traffic is measured by doing, as
// memory is: the modules run, and what would be sent is counted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hawser {

struct ExchangeNote {
  const char* group = "";      ///< "tp", "cp" or "ep": the ranks that take part
  const char* operation = "";  ///< as the ledger names it, such as "all_reduce" (comm/ledger.h)
  int64_t bytes = 0;           ///< that one rank sends, by the ring form of the operation
  double flops = 0;            ///< computed since the exchange before, or since the call began
  bool beside = false;         ///< begun, then awaited: the other half of a pair may compute meanwhile
};

/// What one call of a module exchanges, in order, and the clock of FLOPs by which it is written down.
struct ExchangeNotes {
  std::vector<ExchangeNote> list;
  double flops = 0;  ///< since the last note

  void add(const char* group, const char* operation, int64_t bytes) {
    list.push_back({group, operation, bytes, flops, false});
    flops = 0;
  }
};

/// Whether ranks of that group take part.
inline bool is_of(const ExchangeNote& note, std::string_view group) { return group == note.group; }

/// Whether there is one that is carried beside.
inline bool any_beside(const std::vector<ExchangeNote>& notes) {
  for (const ExchangeNote& note : notes)
    if (note.beside) return true;
  return false;
}

/// Of all of them.
inline int64_t sent_bytes(const std::vector<ExchangeNote>& notes) {
  int64_t bytes = 0;
  for (const ExchangeNote& note : notes) bytes += note.bytes;
  return bytes;
}

}  // namespace hawser
