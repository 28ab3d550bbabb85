// Ramp cases: batch ramps whose entries are wrong, or one of whose sizes no run could train with.
#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {

std::vector<Case> ramp_cases() {
  return {
      bad(R"({"batch": {"ramp": [{"from_rows": 5, "global_batch": 4}]}})",
          {"/batch/ramp/0/from_rows", "is 5", "the first size must begin at 0", "use 0"}),
      bad(R"({"batch": {"ramp": [{"from_rows": 0, "global_batch": 2}, {"from_rows": 0, "global_batch": 4}]}})",
          {"/batch/ramp/1/from_rows", "is 0", "the previous entry begins at 0", "use 1 or more"}),
      bad(R"({"batch": {"ramp": [{"from_rows": 0, "global_batch": 0}]}})",
          {"/batch/ramp/0/global_batch", "minimum 1 rows"}),
      bad(R"({"batch": {"ramp": [{"global_batch": 2}, {"from_rows": 8}]}})",
          {"/batch/ramp/0/from_rows", "is missing", "use 0", "/batch/ramp/1/global_batch"}),
      bad(R"({"batch": {"ramp": [{"from_rows": 0, "global_batch": 3}, {"from_rows": 9, "global_batch": 8}]}})",
          {"/batch/ramp/0/global_batch", "3 is not a multiple of micro_batch 2", "use 2 or 4"}),
      bad(R"({"batch": {"global_batch": 2, "ramp": [{"from_rows": 0, "global_batch": 4}]}})",
          {"/batch/global_batch", "2 is not the largest size of batch.ramp, 4", "leave it out, or use 4"}),
      bad(R"({"batch": {"ramp": [{"from": 0, "global_batch": 4}]}})",
          {"/batch/ramp/0/from", "did you mean", "from_rows"}),
      bad(R"({"mesh": {"dp_shard": 2}, "batch": {"micro_batch": null,
              "ramp": [{"from_rows": 0, "global_batch": 5}, {"from_rows": 9, "global_batch": 8}]}})",
          {"/batch/ramp/0/global_batch", "5 cannot be shared equally by the data-parallel ranks",
           "use 4 or 6"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"schedule": "zbv"}, "batch": {"micro_batch": 1,
              "ramp": [{"from_rows": 0, "global_batch": 2}, {"from_rows": 9, "global_batch": 8}]}})",
          {"/batch/ramp/0/global_batch", "two micro-batches for each of 2 stages", "4 or more"}),
      bad(R"({"zero": {"sum_order": "tree"}, "batch": {"micro_batch": 1,
              "ramp": [{"from_rows": 0, "global_batch": 3}, {"from_rows": 9, "global_batch": 4}]}})",
          {"/batch/ramp/0/global_batch", "needs powers of two", "grad_accum_steps 3"}),
      {"the same run on 4 ranks, with a ramp from 2 to 8 rows",
       HWS_CONFIG_INVALID,
       {"4 ranks cannot share every step of /batch/ramp", "multiples of 2 rows", "use 2 ranks"},
       [](Site&) {
         const Json ramp = Json::parse(
             R"({"batch": {"ramp": [{"from_rows": 0, "global_batch": 2}, {"from_rows": 4, "global_batch": 8}]}})");
         return with_config(sound_config(ramp), [](hws_config* config) {
           hws_config* out = nullptr;
           return hws_config_fit_ranks(config, 4, &out);
         });
       }},
  };
}

}  // namespace hawser::bad_input
