#include "engine/train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/train/executor.h"
#include "engine/train/together.h"

namespace hawser::train {
namespace {

/// Where a process may differ from another: what it uses of its own machine, and how it sees the folder that
/// it writes to. When it saves, and whether it goes on after a failure, all must agree on.
void forget_what_may_differ(Json* config) {
  config->erase("cpu");
  if (!config->contains("checkpoint")) return;
  Json& checkpoint = (*config)["checkpoint"];
  checkpoint.erase("path");
  if (checkpoint.empty()) config->erase("checkpoint");
}

/// The first pointer at which the two differ, with both values; "" where they do not.
std::string difference(const Json& ours, const Json& theirs, int32_t our_rank, int32_t their_rank) {
  const Json ours_flat = ours.flatten(), theirs_flat = theirs.flatten();
  const auto value = [](const Json& flat, const std::string& key) {
    return flat.contains(key) ? flat[key].dump() : std::string("not set");
  };
  for (const Json* side : {&ours_flat, &theirs_flat})
    for (const auto& [pointer, unused] : side->items()) {
      const std::string a = value(ours_flat, pointer), b = value(theirs_flat, pointer);
      if (a != b)
        return fmt::format("{} is {} on rank {} and {} on rank {}", pointer, a, our_rank, b, their_rank);
    }
  return "";
}

}  // namespace

kernels::CpuLevel agree_on_start(comm::RankComm* rank, const std::string& config_json,
                                 kernels::CpuLevel level) {
  std::vector<int32_t> everyone(static_cast<size_t>(rank->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = rank->make_group(std::move(everyone), "world");
  Together together(world.get());
  const std::vector<std::string> texts = together.from_all([&] { return config_json; });
  const std::vector<std::string> levels = together.from_all([&] { return kernels::cpu_level_name(level); });
  Json first = Json::parse(texts[0]);
  forget_what_may_differ(&first);
  for (size_t r = 1; r < texts.size(); ++r) {
    Json other = Json::parse(texts[r]);
    forget_what_may_differ(&other);
    const std::string text = difference(first, other, 0, static_cast<int32_t>(r));
    if (!text.empty())
      throw AgreedError(Code::kConfigInvalid, "the ranks were given different configs: " + text +
                                                  "; start all ranks with the same config");
    level = std::min(level, static_cast<kernels::CpuLevel>(kernels::cpu_level_from_name(levels[r])));
  }
  return std::min(level, static_cast<kernels::CpuLevel>(kernels::cpu_level_from_name(levels[0])));
}

bool on_any_rank(comm::ProcessGroup* group, bool here) {
  int64_t count = here ? 1 : 0;
  if (group) group->wait(group->all_reduce_i64(&count, 1));
  return count > 0;
}

}  // namespace hawser::train
