#include "engine/parallel/offload.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/parallel/disk_store.h"
#include "engine/parallel/pinned_store.h"
#include "engine/parallel/staged_disk_store.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::SlotId;

bool is_forward(Op op) { return op == Op::kForward || op == Op::kRecvF || op == Op::kSendF; }
bool is_backward(Op op) { return op == Op::kRecompute || op == Op::kBackward || op == Op::kBackwardInput; }

int64_t whole_pages(int64_t bytes) { return (bytes + kOffloadPage - 1) / kOffloadPage * kOffloadPage; }

class OffloadActivations {
 public:
  OffloadActivations(plan::Plan* plan, plan::Space to, int64_t prefetch)
      : plan_(*plan), to_(to), prefetch_(static_cast<size_t>(prefetch)) {}

  void run() {
    find_uses();
    leaves_.resize(plan_.instructions.size()), comes_.resize(plan_.instructions.size());
    for (size_t slot = 0, slots = plan_.slots.size(); slot < slots; ++slot)
      if (moves(static_cast<SlotId>(slot))) find_gap(static_cast<SlotId>(slot));
    const auto before = [&](size_t i, Instruction*) {
      for (const Journey& j : comes_[i]) add(Op::kFetch, plan::Lane::kFetch, j, j.outside, j.inside);
    };
    const auto after = [&](size_t i) {
      for (const Journey& j : leaves_[i]) add(Op::kOffload, plan::Lane::kOffload, j, j.inside, j.outside);
    };
    insert_around(&plan_, before, after);
  }

 private:
  struct Journey {
    SlotId inside, outside;
    int32_t block, micro_batch;
  };

  bool moves(SlotId slot) const {
    const plan::Slot& s = plan_.slot(slot);
    return !s.persistent && s.category == plan::Category::kActivations;
  }

  /// Finds the uses of slots. Distances are counted in instructions that call modules.
  void find_uses() {
    uses_.resize(plan_.slots.size());
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& n = plan_.instructions[i];
      number_.push_back(by_number_.size());
      if (plan::traits_of(n.op).modules) by_number_.push_back(i);
      for (const plan::Use& use : n.uses) {
        std::vector<size_t>& uses = uses_[static_cast<size_t>(use.slot)];
        if (uses.empty() || uses.back() != i) uses.push_back(i);
      }
    }
  }

  /// Finds the gap between a slot's last use in forward and its first use in backward, in which it is
  /// offloaded.
  void find_gap(SlotId slot) {
    const std::vector<size_t>& uses = uses_[static_cast<size_t>(slot)];
    for (size_t u = 0; u + 1 < uses.size(); ++u) {
      const size_t from = uses[u], to = uses[u + 1];
      if (!is_forward(plan_.instructions[from].op) || !is_backward(plan_.instructions[to].op)) continue;
      const size_t out = number_[from] + prefetch_, back = number_[to] - std::min(number_[to], prefetch_);
      if (back <= out + 1) return;
      plan_.instructions[by_number_[out]].holds.push_back(slot);
      move(slot, from, by_number_[back], uses, u + 1);
      return;
    }
  }

  void move(SlotId slot, size_t from, size_t fetch, const std::vector<size_t>& uses, size_t later) {
    plan::Slot& inside = plan_.slots[static_cast<size_t>(slot)];
    inside.align = kOffloadPage;
    plan::Slot outside, again = inside;
    outside.name = inside.name + " (away)";
    outside.category = inside.category;
    outside.space = to_, outside.align = kOffloadPage;
    outside.bytes = whole_pages(inside.bytes);
    again.name = inside.name + " (back)";
    const Instruction& last = plan_.instructions[from];
    const Journey out{slot, plan_.add_slot(std::move(outside)), last.block, last.micro_batch};
    const Journey back{plan_.add_slot(std::move(again)), out.outside, out.block, out.micro_batch};
    for (size_t u = later; u < uses.size(); ++u)
      for (plan::Use& use : plan_.instructions[uses[u]].uses)
        if (use.slot == slot) use.slot = back.inside;
    leaves_[from].push_back(out);
    comes_[fetch].push_back(back);
  }

  void add(Op op, plan::Lane lane, const Journey& j, SlotId sent, SlotId received) {
    Instruction n;
    n.op = op, n.lane = lane, n.block = j.block, n.micro_batch = j.micro_batch;
    n.read(Operand::kSent, sent);
    n.write(Operand::kReceived, received);
    plan_.instructions.push_back(std::move(n));
  }

  plan::Plan& plan_;
  const plan::Space to_;
  const size_t prefetch_;
  std::vector<std::vector<size_t>> uses_;  // instructions, indexed by slot
  std::vector<size_t> number_;             // indexed by instruction: earlier instructions that call modules
  std::vector<size_t> by_number_;          // instructions that call modules
  std::vector<std::vector<Journey>> leaves_,
      comes_;  // indexed by instruction: after and before it
};

}  // namespace

void offload_activations(plan::Plan* plan, plan::Space to, int64_t prefetch) {
  OffloadActivations(plan, to, prefetch).run();
}

int64_t largest_move(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const Instruction& n : plan.instructions)
    if (n.op == Op::kOffload) bytes = std::max(bytes, whole_pages(moved_bytes(plan, n)));
  return bytes;
}

int64_t offloaded_bytes(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const Instruction& n : plan.instructions)
    if (n.op == Op::kOffload) bytes += moved_bytes(plan, n);
  return bytes;
}

plan::Space offload_space(const OffloadConfig& config) {
  switch (config.activations) {
    case OffloadSpace::kOff:
      break;
    case OffloadSpace::kHost:
      return plan::Space::kHost;
    case OffloadSpace::kDisk:
      return plan::Space::kDisk;
  }
  return plan::Space::kArena;
}

void require_offload(const OffloadConfig& config, bool in_place) {
  if (config.activations == OffloadSpace::kHost && in_place)
    fail(Code::kConfigInvalid,
         "/offload/activations \"host\" has no effect: device \"cpu\" computes in the host's memory; use "
         "\"disk\" or \"off\"");
}

int64_t offload_staging_bytes(const OffloadConfig& config, const plan::Plan& plan, int64_t bytes,
                              bool in_place) {
  if (config.activations == OffloadSpace::kHost) return bytes;
  if (config.activations == OffloadSpace::kDisk && !in_place)
    return StagedDiskStore::staging_bytes(largest_move(plan));
  return 0;
}

std::unique_ptr<OffloadStore> make_offload_store(const OffloadConfig& config, const plan::Plan& plan,
                                                 int64_t bytes, const device::HostLink& link, char* staging) {
  if (bytes == 0) return nullptr;
  const auto copies =
      static_cast<size_t>(std::count_if(plan.instructions.begin(), plan.instructions.end(),
                                        [](const Instruction& n) { return n.op == Op::kOffload; }));
  if (config.activations == OffloadSpace::kHost)
    return std::make_unique<PinnedStore>(link.shared_device(), staging, copies);
  if (link.in_place()) return std::make_unique<DiskStore>(config.folder, bytes, copies);
  return std::make_unique<StagedDiskStore>(link.shared_device(), config.folder, bytes, copies, staging,
                                           largest_move(plan));
}

}  // namespace hawser::parallel
