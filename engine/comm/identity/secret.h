// Secret: a key that the ranks of one job share, and that each proves to know without revealing it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/comm/identity/identity_module.h"

namespace hawser::comm {

using Proof = std::array<uint8_t, kProofBytes>;

class Secret {
 public:
  static constexpr size_t kLeastBytes = 32, kMostBytes = 4096;

  /// Copies `bytes`. `module_folder` is the folder of libhawser_identity.so; "": hawser-0/ next to this
  /// library. Throws kInvalidArgument for fewer than 32 or more than 4,096 bytes, and the errors of
  /// open_identity_module.
  Secret(std::string_view bytes, const std::string& module_folder);
  ~Secret();
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  Proof prove(std::string_view text) const;
  bool proves(std::string_view text, const Proof& proof) const;

 private:
  const IdentityModule& module_;
  std::string bytes_;
};

/// Reads the secret from a file: all bytes except one newline at the end. Throws kNotFound, kIo,
/// kInvalidArgument (also if it is not a regular file), and kPermission for a file that every user may read,
/// that its group or other users may write, or that belongs to a user other than this process's or root.
std::shared_ptr<const Secret> read_secret(const std::string& path, const std::string& module_folder = "");

}  // namespace hawser::comm
