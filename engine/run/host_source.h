// HostSource: training batches that the host program provides when a step asks for them, in place of the
// config's data.
//
// Threading: one mutating call at a time; the host's function runs on the thread of that call.
// Errors: an error of the function, or in its batch, is thrown on all processes; then nothing changes.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/error.h"
#include "engine/ranks/ranks.h"
#include "engine/state/progress.h"

namespace hawser::train {

/// The request of a step.
struct SourceRequest {
  int64_t step = 0;     ///< step that the batch is for
  int64_t samples = 0;  ///< rows consumed before
  int64_t rows = 0, cols = 0;
  PushedBatch::Room room;  ///< memory for the function to fill
  bool documents = false;  ///< set by the function if it fills room.document_begin
  bool weights = false;    ///< set by the function if it fills room.weights
};

/// Thrown on all processes if the source of one has no more batches.
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
  /// Fetches the next step's batch, as if it had been pushed. Throws EndOfData on all processes if any has no
  /// more. Collective.
  void fetch(const Ranks& ranks, Progress* progress) const;

 private:
  bool ask(const config::ResolvedConfig& config, SourceRequest* request) const;

  Fill fill_;
};

}  // namespace hawser::train
