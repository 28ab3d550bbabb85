// AgreedError: an error that all ranks of the world throw together. The ranks can keep communicating after
// it. Any other error is thrown by one rank alone, which announces it to the other ranks.
#pragma once

#include "engine/base/error.h"
#include "engine/comm/comm.h"

namespace hawser::train {

class AgreedError : public Error {
 public:
  using Error::Error;
  explicit AgreedError(const Error& error) : Error(error) {}
};

/// Reports to the other ranks that this rank failed alone. Returns the error to throw here, which names this
/// rank.
inline Error announce_failure(comm::RankComm* end, const Error& error) noexcept {
  return end->abort(error) ? error.on_rank(end->rank()) : error;  // the error came from the other ranks
}

}  // namespace hawser::train
