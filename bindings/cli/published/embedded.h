// The tables and stacks in the command. bindings/cli/published/embed.cmake writes them.
#pragma once

#include <cstddef>

namespace hawser::cli::published {

struct EmbeddedFile {
  const char *name,
      *json;  ///< the name is relative to tests/planner/published, such as "stacks/megatron.json"
};
extern const EmbeddedFile kEmbedded[];
extern const size_t kEmbeddedCount;

}  // namespace hawser::cli::published
