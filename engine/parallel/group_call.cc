#include "engine/parallel/group_call.h"

#include <numeric>

namespace hawser::parallel {
namespace {

constexpr int64_t kAlign = 64;

/// Assigns staging memory, array by array.
class Stager {
 public:
  Stager(GroupCall* transfer, char* host) : t_(*transfer), begin_(host), next_(host) {}

  /// Returns staging memory for data that a call reads at `arena`.
  void* input(const void* arena, int64_t bytes) {
    void* const host = take(bytes);
    t_.before.push_back({const_cast<void*>(arena), host, bytes});
    return host;
  }
  /// Returns staging memory for data that a call writes to `arena`.
  void* output(void* arena, int64_t bytes) {
    void* const host = take(bytes);
    t_.after.push_back({arena, host, bytes});
    return host;
  }
  /// Returns staging memory for a sum, which may be added to the present contents.
  void* sum(void* arena, int64_t bytes, bool accumulate) {
    void* const host = output(arena, bytes);
    if (accumulate) t_.before.push_back({arena, host, bytes});
    return host;
  }
  int64_t used() const { return next_ - begin_; }

 private:
  void* take(int64_t bytes) {
    char* const at = next_;
    next_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return at;
  }

  GroupCall& t_;
  char* begin_;
  char* next_;
};

}  // namespace

comm::Work issue(const GroupCall& t) {
  if (t.send.data != nullptr) return t.group->send(t.send.data, t.send.bytes, t.send.peer);
  if (t.recv.data != nullptr) return t.group->recv(t.recv.data, t.recv.bytes, t.recv.peer);
  if (const GroupCall::Exchange& e = t.exchange; e.out != nullptr)
    return t.group->all_to_all_v(e.out, e.out_bytes, e.in, e.in_bytes);
  comm::Work work;
  for (const GroupCall::Sums* s : {&t.sums, &t.in_records}) {
    if (!s->scatter.empty()) work = t.group->reduce_scatter(s->scatter, s->reduction);
    if (!s->all.empty()) work = t.group->all_reduce(s->all, s->reduction);
  }
  if (!t.gather_f32.empty()) work = t.group->all_gather(t.gather_f32, DType::kF32);
  if (!t.gather_narrow.empty()) work = t.group->all_gather(t.gather_narrow, t.narrow);
  if (!t.gather_bytes.empty()) work = t.group->all_gather(t.gather_bytes, DType::kU8);
  return work;
}

int64_t stage(GroupCall* t, char* host) {
  Stager stager(t, host);
  for (GroupCall::Sums* s : {&t->sums, &t->in_records}) {
    const comm::Reduction& r = s->reduction;
    const int64_t in = dtype_bytes(r.in_type), out = dtype_bytes(r.out_type);
    for (comm::ReducePiece& p : s->scatter) {
      p.full = stager.input(p.full, p.shard_elements * in * t->members);
      p.shard = stager.sum(p.shard, p.shard_elements * out, r.accumulate);
    }
    for (comm::AllReducePiece& p : s->all) {
      p.in = stager.input(p.in, p.elements * in);
      p.out = stager.sum(p.out, p.elements * out, r.accumulate);
    }
  }
  const auto gather = [&](std::vector<comm::GatherPiece>& pieces, DType type) {
    for (comm::GatherPiece& p : pieces) {
      const int64_t bytes = p.shard_elements * dtype_bytes(type);
      p.shard = stager.input(p.shard, bytes);
      p.full = stager.output(p.full, bytes * t->members);
    }
  };
  gather(t->gather_f32, DType::kF32);
  gather(t->gather_narrow, t->narrow);
  gather(t->gather_bytes, DType::kU8);
  if (GroupCall::Exchange& e = t->exchange; e.out != nullptr) {
    const auto total = [](const std::vector<int64_t>& bytes) {
      return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
    };
    e.in = static_cast<const char*>(stager.input(e.in, total(e.in_bytes)));
    e.out = static_cast<char*>(stager.output(e.out, total(e.out_bytes)));
  }
  return stager.used();
}

}  // namespace hawser::parallel
