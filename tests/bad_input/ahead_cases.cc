// Ahead cases: depths of multi-token prediction that contradict the rest of a config.
#include "tests/bad_input/case.h"

namespace hawser::bad_input {

std::vector<Case> ahead_cases() {
  return {
      bad(R"({"model": {"ahead": 9}})", {"/model/ahead", "more than the maximum 8"}),
      bad(R"({"model": {"ahead": 4}, "batch": {"sequence": 4}})",
          {"/model/ahead", "depth 4 has no targets", "rows have 4 tokens", "use at most 3"}),
      bad(R"({"model": {"ahead": 1, "head": "score", "tied_head": false}})",
          {"/model/ahead", "a score head predicts no tokens", "ahead is 1"}),
      bad(R"({"train": {"ahead_weight": 0.1}})", {"/train/ahead_weight", "no effect: model.ahead is 0"}),
      bad(R"({"model": {"ahead": 1}, "train": {"ahead_weight": -1}})", {"/train/ahead_weight", "minimum 0"}),
      bad(R"({"model": {"ahead": 1}, "adapter": {"rank": 4}})",
          {"/model/ahead", "not supported with an adapter", "/adapter/rank 4"}),
      bad(R"({"model": {"ahead": 1}, "teacher": {"top": 2}})",
          {"/model/ahead", "not supported with a teacher", "/teacher/top 2"}),
      bad(R"({"model": {"ahead": 2}, "objective": {"kind": "dpo"}})",
          {"/model/ahead", "multi-token prediction (/model/ahead 2)", "objective \"dpo\"", "cross_entropy"}),
      bad(R"({"model": {"ahead": 1}, "optimizer": {"qk_clip": 100}})",
          {"/model/ahead", "not supported with qk_clip 100", "leave qk_clip out"}),
      bad(R"({"model": {"ahead": 1}, "device": "cuda"})",
          {"/device", "not supported on device \"cuda\"", "use device \"cpu\""}),
      bad(R"({"model": {"ahead": 1, "layers": 2}, "mesh": {"pp": 2}, "precision": "bf16_pure"})",
          {"/mesh/pp", "bf16_pure", "multi-token prediction (/model/ahead 1) on one stage"}),
  };
}

}  // namespace hawser::bad_input
