// JobSecret: a secret shared by the processes of one `hawser launch` and unknown to other users. The launcher
// creates it and passes it to each rank through a pipe, so that it appears in no argument, variable or file.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

class JobSecret {
 public:
  /// Returns 32 random bytes from the system. Throws Failure if the system provides none.
  static JobSecret random();
  /// Reads the launcher's secret, in a rank, from `descriptor` and closes it. Throws Failure.
  static JobSecret take(int descriptor);

  ~JobSecret();
  JobSecret(const JobSecret&) = default;
  JobSecret& operator=(const JobSecret&) = default;

  /// Returns the read end of a pipe that holds the secret, for one process to inherit. The caller closes it.
  int hand_over() const;
  /// Sets a callback in `address` that reads the secret from this object, which must outlive the call that
  /// uses `address`.
  void lend_to(hws_comm_address* address) const;

 private:
  explicit JobSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

}  // namespace hawser::cli
