// Op: an operation that runs concurrently with its caller, behind a handle. The only one so far is an
// asynchronous save.
#pragma once

#include <memory>

#include "capi/include/hawser.h"
#include "capi/src/handle_table.h"
#include "engine/save/save_operation.h"

namespace hawser::capi {

class Op : public Object {
 public:
  static constexpr HandleType kType = HandleType::kOp;
  std::shared_ptr<train::SaveOperation> save;  ///< thread-safe; never null
};

}  // namespace hawser::capi
