// What a golden case of an adapter has more than others: a PEFT folder of the first state, and values with
// the adapter off, after training, and merged. Names are those of PEFT.
#pragma once

#include <string>
#include <vector>

#include "tests/golden/safetensors_file.h"

namespace hawser::golden {

/// Whether `folder` is such a case.
bool has_adapter(const std::string& folder);

struct AdapterCase {
  std::string folder;  ///< the PEFT folder
  StoredTensor base_logits, after_logits;
  Tensors merged;  ///< base tensors after training, under Hugging Face names
};

/// Reads case.safetensors of `folder`. Throws std::runtime_error.
AdapterCase read_adapter_case(const std::string& folder);

}  // namespace hawser::golden
