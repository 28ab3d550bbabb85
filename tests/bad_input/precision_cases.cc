// Rows of bad input for precisions: scales of losses under fp16, and of operands under fp8.
#include "tests/bad_input/case.h"

namespace hawser::bad_input {

std::vector<Case> precision_cases() {
  return {
      bad(R"({"loss_scale": {"initial": 1024}})", {"/loss_scale/initial", "no effect", "\"fp16\""}),
      bad(R"({"precision": "bf16", "loss_scale": {"fixed": 8}})",
          {"/loss_scale/fixed", "no effect", "\"fp16\""}),
      bad(R"({"precision": "fp16", "loss_scale": {"initial": 1000}})",
          {"/loss_scale/initial", "1000.0 is no power of two", "use 1024"}),
      bad(R"({"precision": "fp16", "loss_scale": {"backoff": 3}})",
          {"/loss_scale/backoff", "3.0 is no power of two", "use 4"}),
      bad(R"({"precision": "fp16", "loss_scale": {"minimum": 2.5}})",
          {"/loss_scale/minimum", "2.5 is no power of two", "use 2"}),
      bad(R"({"precision": "fp16", "loss_scale": {"fixed": 65535}})",
          {"/loss_scale/fixed", "65535.0 is no power of two", "use 65536"}),
      bad(R"({"precision": "fp16", "loss_scale": {"initial": 8, "minimum": 16}})",
          {"/loss_scale/minimum", "minimum 16.0 is above the initial scale, 8.0", "use 8.0 or less"}),
      bad(R"({"precision": "fp16", "loss_scale": {"fixed": 8, "patience": 3}})",
          {"/loss_scale/fixed", "ignores the other fields", "remove the others"}),
      bad(R"({"precision": "fp16", "loss_scale": {"initial": 0.5}})",
          {"/loss_scale/initial", "0.5 is less than the minimum 1"}),
      bad(R"({"precision": "fp16", "device": "cuda"})",
          {"/precision", "\"fp16\" runs on the CPU only", "use \"bf16\""}),
      bad(R"({"fp8": {"margin": 1}})", {"/fp8/margin", "no effect", "\"fp8\""}),
      bad(R"({"precision": "bf16", "fp8": {"recipe": "current"}})", {"/fp8/recipe", "no effect", "\"fp8\""}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "current", "history": 16}})",
          {"/fp8/history", "no effect", "\"delayed\""}),
      bad(R"({"precision": "fp8", "fp8": {"history": 0}})", {"/fp8/history", "0 is less than the minimum 1"}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "blocks"}})",
          {"/fp8/recipe", "\"blocks\"", "use one of them"}),
      bad(R"({"precision": "fp8", "fp8": {"margin": 17}})",
          {"/fp8/margin", "17 is more than the maximum 16"}),
      bad(R"({"precision": "fp8", "device": "cuda"})",
          {"/precision", "\"fp8\" runs on the CPU only", "use \"bf16\""}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "current"}, "mesh": {"tp": 2}})",
          {"/fp8/recipe", "2 tensor-parallel ranks", "use \"delayed\", or set /mesh/tp to 1"}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "current"}, "mesh": {"cp": 2}})",
          {"/fp8/recipe", "2 context-parallel ranks", "use \"delayed\", or set /mesh/cp to 1"}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "current"}, "mesh": {"dp_shard": 2, "ep": 2}, "model": {"bias": {"up": false, "down": false}, "moe": {"experts": 4, "top_k": 2, "width": 8}}})",
          {"/fp8/recipe", "2 expert-parallel ranks", "use \"delayed\", or set /mesh/ep to 1"}),
      bad(R"({"precision": "fp8", "fp8": {"recipe": "current"}, "recompute": {"rows": 64}})",
          {"/fp8/recipe", "all rows", "64", "/recompute/rows to 0"}),
  };
}

}  // namespace hawser::bad_input
