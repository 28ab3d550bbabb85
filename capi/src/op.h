// Op: something that runs beside its caller, behind a handle. So far an asynchronous save.
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
