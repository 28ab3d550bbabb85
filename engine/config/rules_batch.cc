// Batch rules: derive and check the factors of the global batch. The factors that are not given follow from
// those that are. A batch that cannot be divided is refused, with the nearest batches that can.
#include "engine/config/rules_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/rules_ramp.h"

namespace hawser::config {
namespace {

constexpr int64_t kUsualMicroBatch = 8;
// Maximum tokens of a micro-batch; keeps every buffer size far below 2^63.
constexpr int64_t kMostTokens = 2147483647;

/// True if the field is set, except by a preset whose batch a global_batch from a file or a `set` overrides.
bool stands(const Effective& c, const char* pointer) {
  const bool overruled =
      c.origin(pointer) == Origin::kPreset && c.origin("/batch/global_batch") > Origin::kPreset;
  return c.is_given(pointer) && !overruled;
}

/// True if the value is in force and not derived, which means that the user wants to keep it.
bool is_fixed(const Effective& c, const char* pointer) {
  return c.has(pointer) && stands(c, pointer) && c.origin(pointer) != Origin::kRule;
}

bool has_ranks(const Effective& c) { return data_parallel_ranks(c) > 1; }

/// Returns the product of the fixed factors, of which the global batch must be a multiple.
int64_t unit_of_batch(const Effective& c) {
  int64_t unit = data_parallel_ranks(c);
  if (is_fixed(c, "/batch/micro_batch")) unit *= c.integer("/batch/micro_batch");
  if (is_fixed(c, "/batch/grad_accum_steps")) unit *= c.integer("/batch/grad_accum_steps");
  return unit;
}

/// Returns "24 or 36": the multiples of the unit on both sides of the global batch.
std::string nearest_batches(const Effective& c) {
  const int64_t unit = unit_of_batch(c), global = c.integer("/batch/global_batch");
  const int64_t below = global / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

/// Returns the only global batch that both factors allow.
std::string batch_of_factors(const Effective& c) { return fmt::format("{}", unit_of_batch(c)); }

/// True if exactly the given factors are fixed in addition to the ranks, and the global batch is not
/// divisible.
bool does_not_divide(const Effective& c, bool micro_batch, bool grad_accum_steps) {
  return is_fixed(c, "/batch/micro_batch") == micro_batch &&
         is_fixed(c, "/batch/grad_accum_steps") == grad_accum_steps &&
         c.integer("/batch/global_batch") % unit_of_batch(c) != 0;
}

bool differs_from_factors(const Effective& c) {
  return is_fixed(c, "/batch/micro_batch") && is_fixed(c, "/batch/grad_accum_steps") &&
         c.integer("/batch/global_batch") != unit_of_batch(c);
}

constexpr Check kBatchChecks[] = {
    {"/batch/sequence",
     {"/batch/sequence", "/model/context"},
     [](const Effective& c) { return c.integer("/batch/sequence") > c.integer("/model/context"); },
     "rows of {/batch/sequence} tokens are longer than the model's context {/model/context}",
     "use {/model/context} or less"},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return does_not_divide(c, false, false); },
     "global_batch {/batch/global_batch} cannot be shared equally by the data-parallel ranks, dp_replicate "
     "{/mesh/dp_replicate} x dp_shard {/mesh/dp_shard}",
     "use {}",
     nearest_batches},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return !has_ranks(c) && does_not_divide(c, true, false); },
     "global_batch {/batch/global_batch} is not a multiple of micro_batch {/batch/micro_batch}",
     "use {}",
     nearest_batches},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return has_ranks(c) && does_not_divide(c, true, false); },
     "global_batch {/batch/global_batch} is not a multiple of micro_batch {/batch/micro_batch} x "
     "dp_replicate "
     "{/mesh/dp_replicate} x dp_shard {/mesh/dp_shard}",
     "use {}",
     nearest_batches},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return !has_ranks(c) && does_not_divide(c, false, true); },
     "global_batch {/batch/global_batch} is not a multiple of grad_accum_steps {/batch/grad_accum_steps}",
     "use {}",
     nearest_batches},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return has_ranks(c) && does_not_divide(c, false, true); },
     "global_batch {/batch/global_batch} is not a multiple of grad_accum_steps {/batch/grad_accum_steps} x "
     "dp_replicate {/mesh/dp_replicate} x dp_shard {/mesh/dp_shard}",
     "use {}",
     nearest_batches},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return !has_ranks(c) && differs_from_factors(c); },
     "global_batch {/batch/global_batch} is not micro_batch {/batch/micro_batch} times grad_accum_steps "
     "{/batch/grad_accum_steps}",
     "use {}, or leave grad_accum_steps out",
     batch_of_factors},
    {"/batch/global_batch",
     {"/batch/global_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return has_ranks(c) && differs_from_factors(c); },
     "global_batch {/batch/global_batch} is not micro_batch {/batch/micro_batch} x grad_accum_steps "
     "{/batch/grad_accum_steps} x dp_replicate {/mesh/dp_replicate} x dp_shard {/mesh/dp_shard}",
     "use {}, or leave grad_accum_steps out",
     batch_of_factors},
    {"/batch/micro_batch",
     {"/batch/micro_batch", "/batch/sequence"},
     [](const Effective& c) {
       return c.integer("/batch/micro_batch") * c.integer("/batch/sequence") > kMostTokens;
     },
     "a micro-batch of {/batch/micro_batch} rows of {/batch/sequence} tokens has more than 2147483647 tokens",
     "use {} rows, and grad_accum_steps for more",
     [](const Effective& c) {
       return fmt::format("{}", std::max<int64_t>(1, kMostTokens / c.integer("/batch/sequence")));
     }},
};

}  // namespace

bool learns_from_pairs(const Effective& c) {
  return c.has("/objective/kind") && !c.is("/objective/kind", "cross_entropy");
}

int64_t data_parallel_ranks(const Effective& c) {
  return std::min(kMostRanks, c.integer("/mesh/dp_replicate") * c.integer("/mesh/dp_shard"));
}

Value usual_micro_batch(const Effective& c) {
  if (stands(c, "/batch/micro_batch")) return Value();
  if (!c.has("/batch/global_batch")) return Value::of_int(kUsualMicroBatch);
  const int64_t global = c.integer("/batch/global_batch"), unit = unit_of_batch(c);
  if (is_fixed(c, "/batch/grad_accum_steps"))
    return global % unit == 0 ? Value::of_int(global / unit) : Value();
  const int64_t rows_of_all = common_rows(c);
  if (rows_of_all % unit != 0) return Value();
  const int64_t share = rows_of_all / unit;  // rows of a rank in every step, or in a part of it
  const int64_t wish = c.has("/batch/micro_batch") ? c.integer("/batch/micro_batch") : kUsualMicroBatch;
  const int64_t together = learns_from_pairs(c) && share % 2 == 0 ? 2 : 1;  // rows of a pair
  int64_t rows = std::max(together, std::min(share, wish) / together * together);
  while (share % rows != 0) rows -= together;
  return Value::of_int(rows);
}

Value usual_grad_accum_steps(const Effective& c) {
  if (stands(c, "/batch/grad_accum_steps")) return Value();
  if (!c.has("/batch/global_batch")) return Value::of_int(1);
  const int64_t global = c.integer("/batch/global_batch");
  const int64_t rows = c.integer("/batch/micro_batch") * data_parallel_ranks(c);
  return global % rows == 0 ? Value::of_int(global / rows) : Value();
}

Value product_of_batch(const Effective& c) {
  return Value::of_int(c.integer("/batch/micro_batch") * c.integer("/batch/grad_accum_steps") *
                       data_parallel_ranks(c));
}

std::span<const Check> batch_checks() { return kBatchChecks; }

}  // namespace hawser::config
