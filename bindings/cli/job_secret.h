// JobSecret: a secret shared by the processes of one `hawser launch` and unknown to other users. The launcher
// creates it and passes it to each rank through a pipe, so that it appears in no argument, variable or file.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

class JobSecret {
 public:
  /// 32 random bytes from the system. Throws Failure if it provides none.
  static JobSecret random();
  /// In a rank: reads the secret from `descriptor` and closes it. Throws Failure.
  static JobSecret take(int descriptor);

  ~JobSecret();
  JobSecret(const JobSecret&) = default;
  JobSecret& operator=(const JobSecret&) = default;

  /// A pipe's read end with the secret, for one process to inherit. The caller closes it.
  int hand_over() const;
  /// Makes the library ask this object for the secret. It must outlive the call that uses `address`.
  void lend_to(hws_comm_address* address) const;

 private:
  explicit JobSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

}  // namespace hawser::cli
