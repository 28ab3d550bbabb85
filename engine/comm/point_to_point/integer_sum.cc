// Integer sum: exact sums, which do not depend on the order of additions, by recursive halving. In each step
// a member sends its partner the elements that the partner will sum, half of those that it still sums, and
// adds the partner's addends to the other half; then finished parts return the same way, doubling (Thakur,
// Rabenseifner and Gropp 2005, section 4.4). Of N members, a power of two, each sends 2(N-1)/N of the array
// in 2 log2 N messages. Members beyond the largest power of two first send all their addends to a partner,
// and receive the finished sums from it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/comm/point_to_point/collectives.h"

namespace hawser::comm {
namespace {

struct Numbers {
  int64_t begin = 0, end = 0;
  int64_t bytes() const { return (end - begin) * int64_t{sizeof(int64_t)}; }
};

/// Adds; overflow wraps like two's complement, without undefined behaviour.
void add(int64_t* to, const float* staging, int64_t count) {
  const auto* from = reinterpret_cast<const char*>(staging);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t other;
    std::memcpy(&other, from + i * int64_t{sizeof(other)}, sizeof(other));
    to[i] = static_cast<int64_t>(static_cast<uint64_t>(to[i]) + other);
  }
}

}  // namespace

void PeerCollectives::all_reduce_i64() {
  auto* const data = static_cast<int64_t*>(call_->out);
  const int64_t most = staging_.bytes() / int64_t{sizeof(int64_t)};
  for (int64_t at = 0; at < call_->bytes; at += most) {
    sum_integers(data + at, std::min(most, call_->bytes - at));
  }
}

void PeerCollectives::sum_integers(int64_t* data, int64_t count) {
  const int32_t n = group_->size(), me = group_->member;
  const auto core = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n)));
  const int64_t bytes = Numbers{0, count}.bytes();
  if (me >= core) {
    exchange(me - core, data, bytes, nullptr, 0);
    exchange(me - core, nullptr, 0, data, bytes);
    return;
  }
  const bool adopts = me + core < n;
  if (adopts) {
    exchange(me + core, nullptr, 0, staging_.floats.data(), bytes);
    add(data, staging_.floats.data(), count);
  }
  halve_and_double(data, count, core);
  if (adopts) exchange(me + core, data, bytes, nullptr, 0);
}

/// Sums over the first `core` members, a power of two.
void PeerCollectives::halve_and_double(int64_t* data, int64_t count, int32_t core) {
  const int32_t me = group_->member;
  std::array<Numbers, 32> given;  // elements that the partner kept, by step
  size_t steps = 0;
  Numbers mine{0, count};
  for (int32_t apart = core / 2; apart > 0; apart /= 2) {
    fault_.raise_if_set();
    const int64_t middle = mine.begin + (mine.end - mine.begin) / 2;
    Numbers kept{mine.begin, middle}, rest{middle, mine.end};
    if ((me & apart) != 0) std::swap(kept, rest);
    exchange(me ^ apart, data + rest.begin, rest.bytes(), staging_.floats.data(), kept.bytes());
    add(data + kept.begin, staging_.floats.data(), kept.end - kept.begin);
    given[steps++] = rest;
    mine = kept;
  }
  for (int32_t apart = 1; apart < core; apart *= 2) {
    fault_.raise_if_set();
    const Numbers rest = given[--steps];
    exchange(me ^ apart, data + mine.begin, mine.bytes(), data + rest.begin, rest.bytes());
    mine = {std::min(mine.begin, rest.begin), std::max(mine.end, rest.end)};
  }
}

}  // namespace hawser::comm
