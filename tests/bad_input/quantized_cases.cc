// Rule cases about gradients and weights that are sent in records of integers.
#include "tests/bad_input/case.h"

namespace hawser::bad_input {

std::vector<Case> quantized_cases() {
  return {
      bad(R"({"zero": {"quantized_gradients": "int4"}})",
          {"/zero/quantized_gradients", "no effect", "one data-parallel rank"}),
      bad(R"({"mesh": {"dp_shard": 2}, "zero": {"quantized_gradients": "int8", "sum_order": "tree"}})",
          {"/zero/quantized_gradients", "\"int8\"", "promises equal results"}),
      bad(R"({"precision": "bf16_pure", "mesh": {"dp_shard": 2}, "zero": {"quantized_gradients": "int8"}})",
          {"/zero/quantized_gradients", "needs them as fp32", "set precision to \"bf16\""}),
      bad(R"({"mesh": {"dp_shard": 2}, "optimizer": {"frozen": ["blocks.*"]}, "zero": {"quantized_gradients": "int8"}})",
          {"/zero/quantized_gradients", "no weight of a matrix product is trained", "use \"off\""}),
      bad(R"({"mesh": {"dp_shard": 2}, "zero": {"stage": 2, "quantized_weights": "int8"}})",
          {"/zero/quantized_weights", "no effect", "set zero.stage to 3"}),
      bad(R"({"mesh": {"dp_shard": 2}, "zero": {"stage": 3, "quantized_weights": "int8", "sum_order": "tree"}})",
          {"/zero/quantized_weights", "\"int8\"", "promises equal results"}),
      bad(R"({"precision": "bf16_pure", "mesh": {"dp_shard": 2}, "zero": {"stage": 3, "quantized_weights": "int8"}})",
          {"/zero/quantized_weights", "no fp32 masters", "set precision to \"bf16\""}),
      bad(R"({"mesh": {"dp_shard": 2}, "adapter": {"rank": 2}, "zero": {"stage": 3, "quantized_weights": "int8"}})",
          {"/zero/quantized_weights", "an adapter freezes them", "adapter.base to \"nf4\""}),
  };
}

}  // namespace hawser::bad_input
