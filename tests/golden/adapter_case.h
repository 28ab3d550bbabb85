// AdapterCase: the additional values of a golden case with an adapter: a PEFT folder of the first state, and
// results without the adapter, after training, and merged. Names are those of PEFT.
#pragma once

#include <string>
#include <vector>

#include "tests/golden/safetensors_file.h"

namespace hawser::golden {

/// True if `folder` is a case with an adapter.
bool has_adapter(const std::string& folder);

struct AdapterCase {
  std::string folder;  ///< the PEFT folder
  StoredTensor base_logits, after_logits;
  Tensors merged;  ///< base tensors after training, under Hugging Face names
};

/// Reads case.safetensors of `folder`. Throws std::runtime_error.
AdapterCase read_adapter_case(const std::string& folder);

}  // namespace hawser::golden
