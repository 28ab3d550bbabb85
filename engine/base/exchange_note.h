// ExchangeNote: a record of one exchange inside a block. A dry run runs the modules and records what they
// would send, so that traffic is measured like memory, not computed by separate formulas.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hawser {

struct ExchangeNote {
  const char* group = "";      ///< "tp", "cp" or "ep": the ranks that take part
  const char* operation = "";  ///< its name in the ledger, such as "all_reduce" (comm/ledger.h)
  int64_t bytes = 0;           ///< bytes that one rank sends, by the ring form of the operation
  double flops = 0;            ///< computed since the previous exchange, or since the call began
  bool beside = false;         ///< sent asynchronously: the partner of a pair may compute until it is awaited
  /// FLOPs that the rank itself computes after it has begun the exchange, until it waits for this exchange
  /// and all before it. 0: it waits at once. kUntilNext: it begins the next exchange before it waits.
  double hiding_flops = 0;
  static constexpr double kUntilNext = -1;
  bool is_hidden() const { return hiding_flops != 0; }
};

/// The exchanges of one call of a module, in order, and the FLOPs computed since the last of them.
struct ExchangeNotes {
  std::vector<ExchangeNote> list;
  double flops = 0;  ///< since the last note

  void add(const char* group, const char* operation, int64_t bytes) {
    list.push_back({group, operation, bytes, flops, false});
    flops = 0;
  }
  /// Marks the exchange that was added last as begun: the rank computes while it runs, until await.
  void begun() { list.back().hiding_flops = ExchangeNote::kUntilNext; }
  void await() {
    if (list.empty() || list.back().hiding_flops != ExchangeNote::kUntilNext) return;
    list.back().hiding_flops = flops;
    flops = 0;
  }
};

/// True if the exchange is among the ranks of `group`.
inline bool is_of(const ExchangeNote& note, std::string_view group) { return group == note.group; }

/// True if any of the exchanges is asynchronous.
inline bool any_beside(const std::vector<ExchangeNote>& notes) {
  for (const ExchangeNote& note : notes)
    if (note.beside) return true;
  return false;
}

/// True if the rank itself computes during any of the exchanges.
inline bool any_hidden(const std::vector<ExchangeNote>& notes) {
  for (const ExchangeNote& note : notes)
    if (note.is_hidden()) return true;
  return false;
}

/// Bytes that one rank sends in all these exchanges.
inline int64_t sent_bytes(const std::vector<ExchangeNote>& notes) {
  int64_t bytes = 0;
  for (const ExchangeNote& note : notes) bytes += note.bytes;
  return bytes;
}

}  // namespace hawser
