// CommObject: an engine/comm Comm behind a handle. Immutable; what an engine needs of it, it holds itself.
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
  const std::string environment;  ///< of "env": JSON, what it went by
};

/// The host's secret_user, with secret_destroy. `address` may be anything that a host passes.
UserData secret_data(const hws_comm_address* address);
/// The host's options, checked; `argument` is the name of the argument. Reads the secret. Throws.
comm::AddressOptions address_options(const Call& call, const hws_comm_address* address, const char* argument);

// Sizes of the structs in the first version of the ABI; a smaller struct_size is an error.
inline constexpr uint32_t kCommAddressSize = sizeof(void*) == 8 ? 48 : 36;
inline constexpr uint32_t kCommHostSize = 16 + 7 * sizeof(void*);

}  // namespace hawser::capi
