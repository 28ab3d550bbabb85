// CommObject: an engine/comm Comm behind a handle. It is immutable; an engine shares ownership of the Comm
// that it uses.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "capi/include/hawser.h"
#include "capi/src/handle_table.h"
#include "engine/comm/comm.h"
#include "engine/comm/tcp/address.h"

namespace hawser::capi {

class Call;
class UserData;

class CommObject : public Object {
 public:
  static constexpr HandleType kType = HandleType::kComm;
  CommObject(const char* k, std::shared_ptr<comm::Comm> c, std::string e = "")
      : kind(k), comm(std::move(c)), environment(std::move(e)) {}

  const char* const kind;  ///< "local", "address", "env" or "host"
  const std::shared_ptr<comm::Comm> comm;
  /// Kind "env": the JSON object of hws_comm_read_env.
  const std::string environment;
};

/// Owns the secret_user and secret_destroy of `address`, which may be any pointer that the host program
/// passes.
UserData secret_data(const hws_comm_address* address);
/// Returns the checked options of the host program and reads the secret. `argument` is the name of the
/// argument. Throws.
comm::AddressOptions address_options(const Call& call, const hws_comm_address* address, const char* argument);

// Sizes of the structs in the first version of the ABI. A smaller struct_size is an error.
inline constexpr uint32_t kCommAddressSize = sizeof(void*) == 8 ? 48 : 36;
inline constexpr uint32_t kCommHostSize = 16 + 7 * sizeof(void*);

}  // namespace hawser::capi
