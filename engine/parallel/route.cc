#include "engine/parallel/route.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hawser::parallel {
namespace {

using comm::Operation;

/// Returns the innermost level whose block both ranks share.
size_t level_between(int64_t a, int64_t b, const Topology& topology) {
  size_t level = 0;
  while (level < topology.blocks.size() && a / topology.blocks[level] != b / topology.blocks[level]) ++level;
  return level;
}

/// True if `a` sends more than `b` over the outermost level at which they differ.
bool farther(const LevelBytes& a, const LevelBytes& b) {
  return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
}

/// Returns, for each key, how many keys equal it. Usually the keys are already sorted.
template <typename Key>
std::vector<int64_t> equal_keys(const std::vector<Key>& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!std::is_sorted(keys.begin(), keys.end()))
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  std::vector<int64_t> counts(keys.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && keys[order[end]] == keys[order[begin]]) ++end;
    for (size_t k = begin; k < end; ++k) counts[order[k]] = static_cast<int64_t>(end - begin);
  }
  return counts;
}

/// Divides the members into rows; row_of(i) numbers the row of member i. Returns the number of other members
/// of the same row by level, for the member with the most far ones.
template <typename RowOf>
LevelBytes peers(std::span<const int64_t> members, const Topology& topology, RowOf row_of) {
  std::vector<LevelBytes> own(members.size());
  std::vector<int64_t> inner(members.size(), 1);  // the member itself
  std::vector<std::pair<int64_t, int64_t>> keys(members.size());
  for (size_t level = 0; level < topology.levels(); ++level) {
    for (size_t i = 0; i < members.size(); ++i) {
      const int64_t block = level < topology.blocks.size() ? members[i] / topology.blocks[level] : 0;
      keys[i] = {row_of(static_cast<int64_t>(i)), block};
    }
    std::vector<int64_t> counts = equal_keys(keys);
    for (size_t i = 0; i < members.size(); ++i) own[i][level] = counts[i] - inner[i];
    inner = std::move(counts);
  }
  LevelBytes most{};
  for (const LevelBytes& of_member : own)
    if (farther(of_member, most)) most = of_member;
  return most;
}

int64_t sum(const LevelBytes& parts) { return std::accumulate(parts.begin(), parts.end(), int64_t{0}); }

LevelBytes times(LevelBytes parts, int64_t factor) {
  for (int64_t& part : parts) part *= factor;
  return parts;
}

/// Returns the hop of equal messages to each other member.
Hop to_each(HopKind kind, std::span<const int64_t> members, const Topology& topology) {
  return {kind, peers(members, topology, [](int64_t) { return 0; })};
}

/// Returns the hop of shards or addends that go around rings. There are as many rings as the smallest block
/// has members, and in one of them the member is the last of its block.
Hop around_rings(HopKind kind, std::span<const int64_t> members, const Topology& topology) {
  std::vector<int64_t> smallest;  // by level: members of the smallest block; 0 if there is only one block
  int64_t whole = 1;
  for (const int64_t block : topology.blocks) {
    std::vector<int64_t> blocks;
    for (const int64_t member : members) blocks.push_back(member / block);
    const std::vector<int64_t> counts = equal_keys(blocks);
    const auto fewest = std::min_element(counts.begin(), counts.end());
    const bool is_one = *fewest == std::ssize(members);
    const int64_t least = is_one ? 0 : *fewest;
    smallest.push_back(least);
    if (least > 0) whole = std::lcm(whole, least);
  }
  Hop hop{kind, {}};
  int64_t rest = whole;
  for (size_t level = 0; level < topology.levels(); ++level) {
    const bool leaves = level < smallest.size() && smallest[level] > 0;
    const int64_t beyond = leaves ? whole / smallest[level] : 0;
    hop.parts[level] = rest - beyond;
    rest = beyond;
  }
  return hop;
}

/// Returns the hops of addends: all-to-all, or inside sum groups and then across, or around rings.
std::vector<Hop> sum_hops(const Sent& sent, std::span<const int64_t> members, const Topology& topology) {
  const auto n = static_cast<int64_t>(members.size());
  const int64_t size = sent.sum_group;
  if (topology.ring_sums) return {around_rings(HopKind::kInside, members, topology)};
  if (size <= 1 || size >= n) return {to_each(HopKind::kInside, members, topology)};
  const LevelBytes mates = peers(members, topology, [&](int64_t i) { return i / size; });
  const LevelBytes seats = peers(members, topology, [&](int64_t i) { return i % size; });
  return {{HopKind::kInside, times(mates, n / size)}, {HopKind::kAcross, seats}};
}

Hop gather_hop(std::span<const int64_t> members, const Topology& topology) {
  return topology.rings ? around_rings(HopKind::kGather, members, topology)
                        : to_each(HopKind::kGather, members, topology);
}

/// Returns the hop of a message to the next member, around the ring of all members.
Hop to_the_next(std::span<const int64_t> members, const Topology& topology) {
  size_t level = 0;
  for (size_t i = 0; i < members.size(); ++i)
    level = std::max(level, level_between(members[i], members[(i + 1) % members.size()], topology));
  Hop hop;
  hop.parts[level] = 1;
  return hop;
}

int64_t parts_of(const std::vector<Hop>& hops) {
  int64_t parts = 0;
  for (const Hop& hop : hops) parts += sum(hop.parts);
  return parts;
}

/// Returns the hops of an all-reduce. Half of the bytes are addends, the other half finished sums.
std::vector<Hop> all_reduce_hops(const Sent& sent, std::span<const int64_t> members,
                                 const Topology& topology) {
  std::vector<Hop> hops = sum_hops(sent, members, topology);
  Hop gather = gather_hop(members, topology);
  const int64_t addends = parts_of(hops), finished = sum(gather.parts);
  for (Hop& hop : hops) hop.parts = times(hop.parts, finished);
  gather.parts = times(gather.parts, addends);
  hops.push_back(gather);
  return hops;
}

}  // namespace

const char* hop_kind_name(HopKind kind) {
  static constexpr const char* kNames[] = {"inside", "across", "gather", "direct"};
  return kNames[static_cast<size_t>(kind)];
}

Route route_of(const Sent& sent, std::span<const int64_t> members, const Topology& topology) {
  Route route;
  if (members.size() < 2) return route;
  switch (sent.operation) {
    case Operation::kReduceScatter:
      route.hops = sum_hops(sent, members, topology);
      break;
    case Operation::kAllReduce:
    case Operation::kAllReduceI64:
      route.hops = all_reduce_hops(sent, members, topology);
      break;
    case Operation::kAllGather:
      route.hops = {gather_hop(members, topology)};
      break;
    case Operation::kSend:
    case Operation::kRecv:
      route.hops = {to_the_next(members, topology)};
      break;
    default:
      route.hops = {to_each(HopKind::kDirect, members, topology)};
  }
  route.whole = std::max<int64_t>(1, parts_of(route.hops));
  return route;
}

std::vector<LevelBytes> bytes_by_hop(const Route& route, int64_t bytes) {
  std::vector<LevelBytes> split(route.hops.size());
  const int64_t each = bytes / route.whole, left = bytes % route.whole;
  int64_t rest = bytes;
  int64_t* first = nullptr;
  for (size_t h = 0; h < split.size(); ++h)
    for (size_t level = 0; level < kMostLevels; ++level) {
      const int64_t part = route.hops[h].parts[level];
      split[h][level] = each * part + left * part / route.whole;
      rest -= split[h][level];
      if (first == nullptr && part > 0) first = &split[h][level];
    }
  if (first != nullptr) *first += rest;
  return split;
}

}  // namespace hawser::parallel
