// HostSource: training batches that the host program hands out when a step asks for them, in place of the
// config's data.
//
// Threading: one mutating call at a time; the host's function runs on the thread of that call.
// Errors: what the function or the check of its batch throws, on all processes alike; nothing changes.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/error.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

/// What a step asks for.
struct SourceRequest {
  int64_t step = 0;     ///< that the batch is for
  int64_t samples = 0;  ///< rows consumed before
  int64_t rows = 0, cols = 0;
  PushedBatch::Room room;  ///< to be filled
  bool documents = false;  ///< out: room.document_begin is filled, too
};

/// The source of some process has no more batches.
class EndOfData : public Error {
 public:
  using Error::Error;
};

class HostSource {
 public:
  /// Returns false at the end of the data.
  using Fill = std::function<bool(SourceRequest*)>;

  void set(Fill fill) { fill_ = std::move(fill); }
  bool is_set() const { return fill_ != nullptr; }
  /// The next step's batch, as if it had been pushed. Throws EndOfData on all processes when one has no more.
  /// Collective.
  void fetch(const Ranks& ranks, Progress* progress) const;

 private:
  bool ask(const config::ResolvedConfig& config, SourceRequest* request) const;

  Fill fill_;
};

}  // namespace hawser::train
