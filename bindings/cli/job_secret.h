// JobSecret: what the processes of one `hawser launch` know and no other user's process does. The launcher
// makes it and hands it to each rank through a pipe, so it stands in no argument, variable or file.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

class JobSecret {
 public:
  /// 32 random bytes of the system's. Throws Failure if it gives none.
  static JobSecret random();
  /// In a rank: what `descriptor` leads to, which is closed. Throws Failure.
  static JobSecret take(int descriptor);

  ~JobSecret();
  JobSecret(const JobSecret&) = default;
  JobSecret& operator=(const JobSecret&) = default;

  /// The reading end of a pipe that holds the secret, for one process to inherit. The caller closes it.
  int hand_over() const;
  /// Has the library ask for the secret. It must outlive the call that `address` is for.
  void lend_to(hws_comm_address* address) const;

 private:
  explicit JobSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

}  // namespace hawser::cli
