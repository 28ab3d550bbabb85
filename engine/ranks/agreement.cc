#include "engine/ranks/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/base/json_difference.h"
#include "engine/execute/agreed_error.h"
#include "engine/ranks/collective_phases.h"

namespace hawser::train {
namespace {

void forget(Json* config, const char* section, const char* key) {
  if (!config->contains(section)) return;
  (*config)[section].erase(key);
  if ((*config)[section].empty()) config->erase(section);
}

/// Removes fields in which processes may differ: the use of the CPU, the folder for TensorBoard, and the path
/// under which a process sees the checkpoint folder. Processes must agree on when to save, on what happens
/// after a failure, and on samples, which all ranks generate together.
void forget_what_may_differ(Json* config) {
  config->erase("cpu");
  forget(config, "telemetry", "tensorboard");
  forget(config, "checkpoint", "path");
}

/// Returns the first pointer at which the two differ, with both values; "" if they are equal.
std::string difference(const Json& ours, const Json& theirs, int32_t our_rank, int32_t their_rank) {
  std::string text;
  each_difference(ours, theirs, [&](const std::string& pointer, const Json* a, const Json* b) {
    if (text.empty())
      text = fmt::format("{} is {} on rank {} and {} on rank {}", pointer, a ? a->dump() : "not set",
                         our_rank, b ? b->dump() : "not set", their_rank);
  });
  return text;
}

/// Returns why two starts cannot belong to the same engine; "" if they can.
std::string conflict(const Json& ours, const Json& theirs, int32_t our_rank, int32_t their_rank) {
  const std::string text = difference(ours.at("config"), theirs.at("config"), our_rank, their_rank);
  if (!text.empty())
    return "the ranks were given different configs: " + text + "; start all ranks with the same config";
  const auto device = [](const Json& start) { return start.at("device").get<std::string>(); };
  const auto reason = [](const Json& start) { return start.at("reason").get<std::string>(); };
  if (device(ours) == device(theirs)) return "";
  return fmt::format(
      "/device \"auto\" means {} on rank {} ({}) and {} on rank {} ({}); make sure that all ranks have the "
      "device, or set /device to \"cpu\"",
      device(ours), our_rank, reason(ours), device(theirs), their_rank, reason(theirs));
}

Json to_json(const Start& start) {
  Json config = parse_json<Json>(start.config_json);
  forget_what_may_differ(&config);
  if (!start.tokenizer.empty()) config["data"]["tokenizer"] = start.tokenizer;
  return {{"config", std::move(config)}, {"device", start.device}, {"reason", start.device_reason}};
}

std::unique_ptr<comm::ProcessGroup> make_world(comm::RankComm* rank, const char* name) {
  std::vector<int32_t> everyone(static_cast<size_t>(rank->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return rank->make_group(std::move(everyone), name, {}, comm::LinkTopology::kTree);
}

}  // namespace

/// Each rank compares its own start with that of rank 0, so one start is sent, whatever the world's size.
kernels::CpuLevel agree_on_start(comm::RankComm* rank, const Start& start) {
  const auto world = make_world(rank, "world");
  CollectivePhases together(world.get());
  const std::string mine = to_json(start).dump();
  const std::string first = together.from_first([&] { return mine; });
  const std::vector<std::string> conflicts = together.from_all([&] {
    return mine == first ? "" : conflict(parse_json<Json>(first), parse_json<Json>(mine), 0, rank->rank());
  });
  for (const std::string& text : conflicts)
    if (!text.empty()) throw AgreedError(Code::kConfigInvalid, text);
  const auto level = static_cast<int64_t>(start.level);
  std::vector<int64_t> levels(conflicts.size());
  const comm::GatherPiece piece{levels.data(), &level, 1};
  world->wait(world->all_gather({&piece, 1}, DType::kI64));
  kernels::CpuLevel common = start.level;
  for (const int64_t other : levels)
    common = kernels::common_cpu_level(common, static_cast<kernels::CpuLevel>(other));
  return common;
}

void agree_on_plans(comm::RankComm* rank, const PlanDigest& digest) {
  const auto world = make_world(rank, "plans");
  std::vector<PlanDigest> all(static_cast<size_t>(rank->world_size()));
  const comm::GatherPiece piece{all.data(), &digest, sizeof(PlanDigest)};
  world->wait(world->all_gather({&piece, 1}, DType::kU8));
  for (size_t r = 1; r < all.size(); ++r)
    for (size_t part = 0; part < digest.parts.size(); ++part)
      if (all[r].parts[part] != all[0].parts[part])
        throw AgreedError(
            Code::kFailedPrecondition,
            fmt::format("rank {} has another {} than rank 0; run the same build of Hawser on all ranks", r,
                        part_name(static_cast<PlanPart>(part))));
}

int64_t sum_over_ranks(comm::ProcessGroup* group, int64_t here) {
  int64_t sum = here;
  if (group) group->wait(group->all_reduce_i64(&sum, 1));
  return sum;
}

}  // namespace hawser::train
