// Config: a config tree behind a handle.
#pragma once

#include <utility>

#include "capi/src/handle_table.h"
#include "engine/config/config_tree.h"

namespace hawser::capi {

class Config : public Object {
 public:
  static constexpr HandleType kType = HandleType::kConfig;
  explicit Config(config::ConfigTree t) : tree(std::move(t)) {}
  config::ConfigTree tree;
};

}  // namespace hawser::capi
