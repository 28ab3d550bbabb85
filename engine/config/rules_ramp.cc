#include "engine/config/rules_ramp.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "engine/config/tree.h"

namespace hawser::config {
namespace {

constexpr const char* kRamp = "/batch/ramp";

std::string key_of(size_t entry, const char* key) { return fmt::format("{}/{}/{}", kRamp, entry, key); }

int64_t largest(const std::vector<RampSize>& ramp) {
  return std::max_element(
             ramp.begin(), ramp.end(),
             [](const RampSize& a, const RampSize& b) { return a.global_batch < b.global_batch; })
      ->global_batch;
}

/// Checks where a size begins. `before`: where the previous entry begins, or -1.
void check_begin(int64_t begin, int64_t before, const std::string& pointer, std::vector<Problem>* problems) {
  if (before < 0 && begin != 0)
    problems->push_back({pointer, fmt::format("is {}, but the first size must begin at 0", begin), "use 0"});
  if (before >= 0 && begin <= before)
    problems->push_back({pointer, fmt::format("is {}, but the previous entry begins at {}", begin, before),
                         fmt::format("use {} or more", before + 1)});
}

void check_global_batch(const Effective& c, const std::vector<RampSize>& ramp,
                        std::vector<Problem>* problems) {
  if (!c.has("/batch/global_batch") || c.integer("/batch/global_batch") == largest(ramp)) return;
  problems->push_back({"/batch/global_batch",
                       fmt::format("global_batch {} is not the largest size of batch.ramp, {}",
                                   c.integer("/batch/global_batch"), largest(ramp)),
                       fmt::format("leave it out, or use {}", largest(ramp))});
}

}  // namespace

std::vector<RampSize> ramp_of(const Effective& c) {
  std::vector<RampSize> ramp;
  for (size_t i = 0; i < c.count(kRamp); ++i)
    if (c.has(key_of(i, "from_rows")) && c.has(key_of(i, "global_batch")))
      ramp.push_back({c.integer(key_of(i, "from_rows")), c.integer(key_of(i, "global_batch"))});
  return ramp;
}

int64_t common_rows(const Effective& c) {
  int64_t rows = c.integer("/batch/global_batch");
  for (const RampSize& size : ramp_of(c)) rows = std::gcd(rows, size.global_batch);
  return rows;
}

Value largest_of_ramp(const Effective& c) {
  const std::vector<RampSize> ramp = ramp_of(c);
  if (ramp.empty()) return Value();
  if (c.is_given("/batch/global_batch") && c.origin("/batch/global_batch") >= c.origin(kRamp)) return Value();
  return Value::of_int(largest(ramp));
}

void check_ramp(const Effective& c, std::vector<Problem>* problems) {
  int64_t before = -1;
  for (size_t i = 0; i < c.count(kRamp); ++i) {
    const std::string begin = key_of(i, "from_rows"), size = key_of(i, "global_batch");
    if (c.has(begin)) {
      check_begin(c.integer(begin), before, begin, problems);
      before = c.integer(begin);
    } else if (!c.is_given(begin)) {
      problems->push_back(
          {begin, "is missing", i == 0 ? "use 0" : "give the consumed rows at which this size begins"});
      before = std::max<int64_t>(before, 0);
    }
    if (!c.is_given(size)) problems->push_back({size, "is missing", "give the rows of a step"});
  }
  if (const std::vector<RampSize> ramp = ramp_of(c); !ramp.empty()) check_global_batch(c, ramp, problems);
}

std::vector<OneSize> sizes_of_ramp(const Value& raw, const Effective& c) {
  std::vector<OneSize> sizes;
  const auto set = [](Value* config, const char* pointer, Value value) {
    set_origin(&value, Origin::kSet);
    *make_slot(config, pointer) = std::move(value);
  };
  const std::vector<RampSize> ramp = ramp_of(c);
  for (size_t i = 0; i < ramp.size(); ++i) {
    if (ramp[i].global_batch == c.integer("/batch/global_batch")) continue;
    Value one = raw;
    for (const char* follows : {kRamp, "/batch/grad_accum_steps", "/train/epochs", "/train/epoch_samples"})
      *make_slot(&one, follows) = Value();
    set(&one, "/batch/global_batch", Value::of_int(ramp[i].global_batch));
    if (c.has("/batch/micro_batch"))
      set(&one, "/batch/micro_batch", Value::of_int(c.integer("/batch/micro_batch")));
    if (c.has("/train/steps")) set(&one, "/train/steps", Value::of_int(c.integer("/train/steps")));
    sizes.push_back({i, ramp[i].global_batch, Effective(one)});
  }
  return sizes;
}

Problem problem_of_size(const OneSize& size, const Problem& problem) {
  const bool of_batch = problem.pointer == "/batch/global_batch";
  return {key_of(size.entry, "global_batch"),
          of_batch ? problem.message
                   : fmt::format("steps of {} rows: {}: {}", size.rows, problem.pointer, problem.message),
          problem.fix};
}

}  // namespace hawser::config
