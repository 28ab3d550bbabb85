#include "engine/report/layout_details.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hawser::train {
namespace {

/// If waits for data-parallel ranks take a smaller share of the step, shorter waits are not worth a forecast.
constexpr double kLeastExposed = 1e-3;
/// Most neighbours of a layout that move a layer from one chunk to another.
constexpr size_t kMostMoves = 4;

constexpr int64_t kSelective = 1, kFull = 2;  // of kRecomputePolicies

size_t largest(const auto& of) {
  return static_cast<size_t>(std::max_element(of.begin(), of.end()) - of.begin());
}
size_t smallest(const auto& of) {
  return static_cast<size_t>(std::min_element(of.begin(), of.end()) - of.begin());
}

bool names(const std::vector<config::Setting>& settings, const std::string& pointer) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const config::Setting& s) { return s.pointer == pointer; });
}

void set_details(LayoutChoice* c, std::vector<config::Setting> details) {
  std::sort(details.begin(), details.end());
  c->kinds += std::ssize(details) - std::ssize(c->details);
  c->details = std::move(details);
}

}  // namespace

LayoutDetails::LayoutDetails(const config::ResolvedConfig& base, const cluster::Cluster& cluster,
                             const LayoutSpace& space)
    : space_(space) {
  add(Matters::kReduce, {{{"/zero/reduce", "\"per_micro_batch\""}}});
  std::vector<Value> reshard = {{{"/zero/reshard_after_forward", "\"keep\""}}};
  if (const int64_t node = cluster.levels.front().ranks; node > 1)
    reshard.push_back(
        {{"/zero/reshard_after_forward", "\"group\""}, {"/zero/reshard_group", std::to_string(node)}});
  add(Matters::kGather, std::move(reshard));
  add(Matters::kGather, {{{"/zero/prefetch", "0"}}, {{"/zero/prefetch", "2"}}, {{"/zero/prefetch", "4"}}});
  std::vector<Value> arrays;
  for (const char* const list :
       {R"(["qkv"])", R"(["attention"])", R"(["mlp_hidden","qkv"])", R"(["mlp_hidden","attention"])",
        R"(["qkv","attention"])", R"(["mlp_hidden","qkv","attention"])"})
    arrays.push_back({{"/recompute/arrays", list}});
  add(Matters::kArrays, std::move(arrays));
  std::vector<Value> segments;
  for (int64_t every = 2; every <= std::min<int64_t>(8, base.model.layers); every *= 2)
    segments.push_back({{"/recompute/policy", "\"every\""}, {"/recompute/every", std::to_string(every)}});
  add(Matters::kSegments, std::move(segments));
  const bool host = cluster.device.kind == device::Kind::kCuda && cluster.host.to_device > 0 &&
                    cluster.host.from_device > 0;
  const bool disk = !base.offload.folder.empty() && cluster.host.disk_read > 0 && cluster.host.disk_write > 0;
  add_offload("/offload/optimizer", host && cluster.host.update > 0, disk);
  add_offload("/offload/activations", host, disk);
  add_offload("/offload/parameters", host, disk);
  if (host && cluster.host.update > 0)
    add(Matters::kOffload, {{{"/offload/gradients", "\"host\""}},
                            {{"/offload/gradients", "\"host\""}, {"/zero/reduce", "\"per_micro_batch\""}}});
}

void LayoutDetails::add(Matters matters, std::vector<Value> values) {
  std::erase_if(values, [&](const Value& value) {
    return std::any_of(value.begin(), value.end(),
                       [&](const config::Setting& s) { return space_.is_set(s.pointer.c_str()); });
  });
  if (!values.empty()) details_.push_back({matters, std::move(values)});
}

void LayoutDetails::add_offload(const char* pointer, bool host, bool disk) {
  std::vector<Value> values;
  if (host) values.push_back({{pointer, "\"host\""}});
  if (disk) values.push_back({{pointer, "\"disk\""}});
  const size_t before = details_.size();
  add(Matters::kOffload, std::move(values));
  can_offload_ |= details_.size() > before;
}

bool LayoutDetails::has(const LayoutChoice& c, const Detail& detail) {
  return std::any_of(detail.values.begin(), detail.values.end(), [&](const Value& value) {
    return std::any_of(value.begin(), value.end(),
                       [&](const config::Setting& s) { return names(c.details, s.pointer); });
  });
}

/// False if the detail has no effect on the layout.
bool LayoutDetails::matters(const Detail& detail, const LayoutChoice& c) {
  switch (detail.matters) {
    case Matters::kReduce:
      return c.zero_stage >= 2;
    case Matters::kGather:
      return c.zero_stage == 3;
    case Matters::kArrays:
      return c.recompute == kSelective;
    case Matters::kSegments:
      return c.recompute == kFull;
    case Matters::kOffload:
      return true;
  }
  return false;
}

bool LayoutDetails::may_help(const Detail& detail, const LayoutChoice& c, const LayoutLoads& loads) const {
  if (has(c, detail)) return true;
  if (!matters(detail, c)) return false;
  const bool waits = detail.matters == Matters::kReduce || detail.matters == Matters::kGather;
  return !loads.fits || detail.matters == Matters::kArrays || (waits && loads.exposed > kLeastExposed);
}

/// Gives the detail another value.
LayoutChoice LayoutDetails::with(LayoutChoice c, const Detail& detail, const Value& value) {
  std::vector<config::Setting> details = value;
  for (const config::Setting& s : c.details) {
    const bool replaced = std::any_of(detail.values.begin(), detail.values.end(),
                                      [&](const Value& other) { return names(other, s.pointer); });
    if (!replaced) details.push_back(s);
  }
  set_details(&c, std::move(details));
  return c;
}

std::vector<LayoutChoice> LayoutDetails::neighbours(const LayoutChoice& c, const LayoutLoads& loads) const {
  std::vector<LayoutChoice> all;
  for (const Detail& detail : details_) {
    if (!may_help(detail, c, loads)) continue;
    if (has(c, detail)) all.push_back(with(c, detail, {}));
    for (const Value& value : detail.values)
      if (LayoutChoice other = with(c, detail, value); other != c) all.push_back(std::move(other));
  }
  add_moves(c, loads, &all);
  return all;
}

/// Adds layouts in which a layer moves from the busiest stage to the least busy one or, if `c` does not fit,
/// from the fullest stage to the least full one.
void LayoutDetails::add_moves(const LayoutChoice& c, const LayoutLoads& loads,
                              std::vector<LayoutChoice>* all) const {
  if (c.pp == 1 || space_.is_set("/pipeline/layers")) return;
  const size_t from = loads.fits ? largest(loads.computing) : largest(loads.bytes);
  const size_t to = loads.fits ? smallest(loads.computing) : smallest(loads.bytes);
  size_t moves = 0;
  for (size_t p = 0; p < loads.layers.size(); ++p)
    for (size_t q = 0; q < loads.layers.size() && moves < kMostMoves; ++q) {
      if (loads.stages[p] != static_cast<int64_t>(from) || loads.stages[q] != static_cast<int64_t>(to))
        continue;
      if (from == to || loads.layers[p] < 2) continue;
      std::vector<int64_t> layers = loads.layers;
      --layers[p], ++layers[q], ++moves;
      LayoutChoice moved = c;
      std::vector<config::Setting> details = c.details;
      std::erase_if(details, [](const config::Setting& s) { return s.pointer == "/pipeline/layers"; });
      details.push_back({"/pipeline/layers", fmt::format("[{}]", fmt::join(layers, ","))});
      set_details(&moved, std::move(details));
      all->push_back(std::move(moved));
    }
}

std::vector<LayoutChoice> LayoutDetails::product(const LayoutChoice& c) const {
  std::vector<LayoutChoice> all = {c};
  for (const Detail& detail : details_) {
    if (!matters(detail, c)) continue;
    const size_t count = all.size();
    for (const Value& value : detail.values)
      for (size_t i = 0; i < count; ++i) all.push_back(with(all[i], detail, value));
  }
  return all;
}

LayoutChoice LayoutDetails::offloaded(const LayoutChoice& c, Offload offload) const {
  LayoutChoice made = c;
  for (const auto& [wanted, pointer] : {std::pair{offload.optimizer, "/offload/optimizer"},
                                        {offload.activations, "/offload/activations"},
                                        {offload.parameters, "/offload/parameters"}})
    for (const Detail& detail : details_)
      if (wanted && names(detail.values.front(), pointer)) made = with(made, detail, detail.values.front());
  return made;
}

}  // namespace hawser::train
