// Strategies: asks each strategy of a layout in turn.
#include <algorithm>
#include <utility>

#include "engine/parallel/compose.h"

namespace hawser::parallel {

comm::Lane block_lane(bool in_chunks) {
  if (in_chunks) return {.name = "chunks"};
  return {.name = "block", .at_once = true};
}
comm::Lane overlapped_lane() { return {.name = "experts"}; }

Strategies::Strategies(const Settings& settings, std::vector<std::unique_ptr<Strategy>> all)
    : settings_(settings), mesh_(settings.config.mesh), all_(std::move(all)) {
  for (const auto& s : all_) s->shape(&form_);
}
Strategies::~Strategies() = default;

void Strategies::require_effect(bool in_place, bool peers) const {
  for (const auto& s : all_) s->require_effect(in_place, peers);
}

void Strategies::lay_out(ShardLayout::Options* options, const DataParallelStrategy& data) const {
  options->mesh = mesh_;
  for (const auto& s : all_) s->lay_out(options, data, form_);
}

void Strategies::add_sizes(plan::Sizes* sizes, bool in_place) const {
  sizes->halves = form_.backward.halves;
  for (const auto& s : all_) s->add_sizes(sizes, in_place);
}

void Strategies::pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& data,
                      Purpose purpose) const {
  for (const auto& s : all_) s->pass(plan, layout, data, purpose);
}

BesideArena Strategies::beside_arena(const PlannedStep& step) const {
  BesideArena bytes;
  for (const auto& s : all_) s->reserve(step, &bytes);
  return bytes;
}

std::vector<GroupWish> Strategies::groups(const RankPlace& place, DataParallelGroups* groups) const {
  std::vector<GroupWish> wishes;
  for (const auto& s : all_) s->add_groups(place, form_, groups, &wishes);
  return wishes;
}

BlockExchanges Strategies::exchanges(const BlockExchanges::MakeWire& make_wire,
                                     const ExpertHost& host) const {
  BlockExchanges exchanges;
  for (const auto& s : all_) s->add_exchanges(form_, make_wire, host, &exchanges);
  return exchanges;
}

OutsideArena Strategies::outside_arena(const PlannedStep& step, const device::HostLink& link,
                                       char* staging) const {
  OutsideArena outside;
  for (const auto& s : all_)
    if (!outside.exists()) outside = s->outside_arena(step, link, staging);
  return outside;
}

std::string Strategies::words() const {
  std::string words;
  for (const auto& s : all_) words += s->words();
  return words;
}

void Strategies::add_to(Hash* hash) const {
  for (const auto& s : all_) s->add_to(hash);
}

BlockExchanges Strategies::counted_exchanges(ExchangeNotes* notes, bool overlaps, double imbalance) const {
  return exchanges([&](mesh::Axis axis) {
    const bool beside = axis == mesh::Axis::kEp ? overlaps : form_.sums_in_chunks;
    return std::make_unique<CountingWire>(mesh_.degree(axis), axis_name(axis), notes, beside,
                                          axis == mesh::Axis::kEp ? imbalance : 1);
  });
}

/// Which experts a rank has makes no difference to its shapes.
BlockExchanges Strategies::dry_exchanges(int64_t rank) const {
  return exchanges([&](mesh::Axis axis) {
    return std::make_unique<CountingWire>(mesh_.degree(axis),
                                          axis == mesh::Axis::kEp ? 0 : mesh_.coordinate(rank, axis));
  });
}

ExpertHost Strategies::expert_host(device::HostLink* link, char* memory, int64_t calls) const {
  if (memory == nullptr) return {link};
  return ExpertHost::at(link, memory, calls, mesh_.degree(mesh::Axis::kEp), settings_.model.moe.experts);
}

pipeline::Division Strategies::divide(const plan::Sizes& sizes) const {
  return {settings_.config.pipeline, stages(), settings_.micro_batches, sizes};
}

plan::Stage Strategies::stage(const pipeline::Division& division, const plan::Sizes& sizes, int64_t number,
                              size_t sent_lifetime_actions, int64_t micro_batches) const {
  plan::Stage stage = division.stage(number, sent_lifetime_actions, micro_batches);
  for (const auto& s : all_) s->shape_stage(sizes, &stage);
  return stage;
}

/// Those of a stage. Where ranks divide experts, each group of these has as many rounds as its rows need;
/// then only those of one group.
int64_t Strategies::kind_of_calls(int64_t rank) const {
  if (mesh_.degree(mesh::Axis::kEp) > 1) return mesh_.at(rank, mesh::Axis::kEp, 0);
  return stage_of(rank);
}

}  // namespace hawser::parallel
