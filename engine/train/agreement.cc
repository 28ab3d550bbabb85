#include "engine/train/agreement.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "engine/train/executor.h"

namespace hawser::train {
namespace {

using Json = nlohmann::json;

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

/// Everyone's bytes, by rank.
std::vector<std::string> all_texts(comm::ProcessGroup* world, const std::string& mine) {
  const auto size = static_cast<size_t>(world->size());
  std::vector<int64_t> sizes(size);
  const auto my_size = static_cast<int64_t>(mine.size());
  const comm::GatherPiece piece{sizes.data(), &my_size, 1};
  world->wait(world->all_gather({&piece, 1}, DType::kI64));
  std::vector<std::string> texts;
  for (size_t r = 0; r < size; ++r) {
    texts.emplace_back(static_cast<size_t>(sizes[r]), '\0');
    if (static_cast<int32_t>(r) == world->rank()) texts[r] = mine;
    world->wait(world->broadcast(texts[r].data(), sizes[r], static_cast<int32_t>(r)));
  }
  return texts;
}

}  // namespace

void agree_on_config(comm::RankComm* rank, const std::string& config_json, const std::string& kernel_level) {
  std::vector<int32_t> everyone(static_cast<size_t>(rank->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = rank->make_group(std::move(everyone), "world");
  const std::vector<std::string> texts = all_texts(world.get(), config_json);
  const std::vector<std::string> levels = all_texts(world.get(), kernel_level);
  Json first = Json::parse(texts[0]);
  forget_what_may_differ(&first);
  for (size_t r = 1; r < texts.size(); ++r) {
    Json other = Json::parse(texts[r]);
    forget_what_may_differ(&other);
    const std::string text = difference(first, other, 0, static_cast<int32_t>(r));
    if (!text.empty())
      throw AgreedError(Code::kConfigInvalid, "the ranks were given different configs: " + text +
                                                  "; start all ranks with the same config");
    if (levels[r] != levels[0])
      throw AgreedError(
          Code::kConfigInvalid,
          fmt::format("rank 0 computes with kernels {} and rank {} with {}, whose last bits differ; set "
                      "/cpu/max_isa on all ranks to the lower of the two",
                      levels[0], r, levels[r]));
  }
}

}  // namespace hawser::train
