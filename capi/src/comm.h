// CommObject: an engine/comm Comm behind a handle. Immutable; what an engine needs of it, it holds itself.
#pragma once

#include <memory>
#include <utility>

#include "capi/include/hawser.h"
#include "capi/src/handle_table.h"
#include "engine/comm/comm.h"

namespace hawser::capi {

class CommObject : public Object {
 public:
  static constexpr HandleType kType = HandleType::kComm;
  CommObject(const char* k, std::shared_ptr<comm::Comm> c) : kind(k), comm(std::move(c)) {}

  const char* const kind;  ///< "local", "address" or "host"
  const std::shared_ptr<comm::Comm> comm;
};

// Sizes of the structs in the first version of the ABI; a smaller struct_size is an error.
inline constexpr uint32_t kCommAddressSize = sizeof(void*) == 8 ? 48 : 36;
inline constexpr uint32_t kCommHostSize = 16 + 7 * sizeof(void*);

}  // namespace hawser::capi
