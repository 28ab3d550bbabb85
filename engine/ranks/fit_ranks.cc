#include "engine/ranks/fit_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser::train {
namespace {

/// Returns the divisors of `rows` next to `ranks`, such as "3 or 4".
std::string nearest_divisors(int64_t rows, int64_t ranks) {
  int64_t below = std::min(ranks, rows), above = ranks;
  while (rows % below != 0) --below;
  while (above <= rows && rows % above != 0) ++above;
  return above > rows ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

/// Returns the largest number of rows of which every step has a multiple.
int64_t common_rows(const config::BatchConfig& batch) {
  int64_t rows = batch.global_batch;
  for (const config::RampSize& size : batch.ramp) rows = std::gcd(rows, size.global_batch);
  return rows;
}

/// Returns the batch section with its rows divided among `ranks`. Every micro-batch has a multiple of `unit`
/// rows.
OrderedJson fit_batch(OrderedJson batch, const config::BatchConfig& was, int64_t ranks, int64_t unit) {
  const int64_t share = common_rows(was) / ranks;
  int64_t micro_batch = std::min(was.micro_batch, share);
  while (share % micro_batch != 0 || micro_batch % unit != 0) --micro_batch;
  batch["micro_batch"] = micro_batch;
  batch["grad_accum_steps"] = was.global_batch / ranks / micro_batch;
  batch["global_batch"] = was.global_batch;
  return batch;
}

/// Removes the settings that apply only to shards if nothing is sharded. The order of sums stays, and so does
/// how several ranks send gradients.
OrderedJson fit_zero(const OrderedJson& zero, bool sharded, bool several) {
  if (sharded) return zero;
  OrderedJson fitted = {{"stage", 0}};
  if (zero.contains("sum_order")) fitted["sum_order"] = zero["sum_order"];
  for (const char* key : {"gradient_type", "quantized_gradients"})
    if (several && zero.contains(key)) fitted[key] = zero[key];
  return fitted;
}

}  // namespace

config::ConfigTree fit_ranks(const config::ConfigTree& config, int64_t world) {
  const config::ResolvedConfig was = assemble(config).config;
  const int64_t together = was.mesh.model_ranks();
  if (world % together != 0)
    fail(Code::kConfigInvalid,
         "{} ranks are not a multiple of the {} that share one copy of the model ({}); use {}", world,
         together, model_axes(was.mesh), std::max<int64_t>(1, world / together) * together);
  const int64_t ranks = world / together;  // data-parallel ranks
  const int64_t unit = was.objective.rows_per_example(), shared = common_rows(was.batch) / unit;
  if (shared % ranks != 0) {
    const std::string unit_name = unit == 1 ? "rows" : "pairs", nearest = nearest_divisors(shared, ranks);
    if (was.batch.has_sizes())
      fail(Code::kConfigInvalid,
           "{} ranks cannot share every step of /batch/ramp equally: the sizes are multiples of {} {}; "
           "use {} ranks",
           ranks, shared, unit_name, nearest);
    fail(Code::kConfigInvalid,
         "{} ranks cannot share the {} {} of a step equally (/batch/global_batch); use {} ranks", ranks,
         shared, unit_name, nearest);
  }
  config::ConfigTree fitted = config;
  const OrderedJson set = parse_json<OrderedJson>(config.to_json());
  const auto section = [&](const char* name) { return set.value(name, OrderedJson::object()); };
  const config::MeshConfig now = was.mesh.with_data_ranks(ranks);
  OrderedJson mesh = section("mesh");
  mesh["dp_replicate"] = now.dp_replicate, mesh["dp_shard"] = now.dp_shard;
  fitted.set("/mesh", mesh.dump());
  fitted.set("/batch", fit_batch(section("batch"), was.batch, ranks, unit).dump());
  if (set.contains("zero")) fitted.set("/zero", fit_zero(set["zero"], now.can_shard(), ranks > 1).dump());
  assemble(fitted);  // throws if the result contradicts itself
  return fitted;
}

}  // namespace hawser::train
