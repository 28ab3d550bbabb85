#include "engine/parallel/offload_formulas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/mesh/flat_shard.h"
#include "engine/parallel/offload_store.h"

namespace hawser::parallel {
namespace {

using plan::Cargo;
using plan::Op;
using plan::Operand;

/// Bytes by a closed form.
struct Form {
  int64_t out = 0, back = 0;
  std::string text;
};

/// Groups begin at multiples of 64 bytes.
int64_t alignment(int64_t bytes) { return (64 - bytes % 64) % 64; }

std::string with_alignment(const std::string& text, int64_t bytes) {
  return bytes > 0 ? fmt::format("{} + {} of alignment", text, bytes) : text;
}

bool is_updated(const ShardLayout& layout, int32_t block) {
  const std::vector<int32_t>& groups = layout.groups_of(block);
  return std::any_of(groups.begin(), groups.end(), [&](int32_t g) { return layout.group(g).trainable; });
}

/// Masters and moments of the blocks that a step updates, once out and once back, and the first moments of
/// blocks with matrices once more for each MOMENTUM.
class StateForm {
 public:
  explicit StateForm(const MoveTerms& terms) : layout_(terms.layout) {
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      if (is_updated(layout_, b))
        for (const int32_t g : layout_.groups_of(b)) add(layout_.group(g), momentums(b));
  }

  Form form() const {
    std::vector<std::string> terms;
    int64_t bytes = aligned_;
    for (const auto& [each, parameters] : parameters_) {
      terms.push_back(fmt::format("{:g} bytes for each of {} {}", static_cast<double>(each.first) / kRun,
                                  parameters, each.second));
      bytes += each.first * (parameters / kRun);
    }
    std::reverse(terms.begin(), terms.end());
    return {bytes, bytes,
            with_alignment(fmt::format("{}", fmt::join(terms, " + ")), aligned_) + ", out and back"};
  }

 private:
  int64_t momentums(int32_t block) const {
    const auto has = [&](bool experts) { return layout_.matrices().of(block, experts) != nullptr ? 1 : 0; };
    return has(false) + has(true);
  }
  void add(const GroupLayout& g, int64_t momentums) {
    if (g.copy || g.borrowed) return;
    const int64_t parameters = layout_.state_sharded() ? g.shard : g.elements;
    int64_t each = 0;
    const auto add_array = [&](DType type) {
      each += dtype_bytes(type, kRun);
      aligned_ += alignment(dtype_bytes(type, parameters));
    };
    if (g.has_master) add_array(g.state_type);
    for (const GroupLayout::KeptState& state : g.states)
      if (state.kept) add_array(state.type);
    for (int64_t i = 0; i < momentums && g.states[plan::kFirstMoment].kept; ++i)
      add_array(g.states[plan::kFirstMoment].type);
    if (each > 0) parameters_[{each, kind(g)}] += parameters;
  }
  static const char* kind(const GroupLayout& g) {
    if (!g.trainable) return "frozen parameters with a master";
    if (g.has_master) return "parameters with a master";
    return g.state_type == DType::kF32 ? "parameters in fp32" : "parameters in bf16";
  }

  /// Groups and shards have multiples of so many parameters, which are whole records.
  static constexpr int64_t kRun = mesh::kShardAlign;
  const ShardLayout& layout_;
  std::map<std::pair<int64_t, std::string>, int64_t> parameters_;  // by bytes of kRun, and their kind
  int64_t aligned_ = 0;
};

/// Gradients out, and updated weights back, for the update on the host's processor.
class HostUpdateForm {
 public:
  explicit HostUpdateForm(const MoveTerms& terms) : t_(terms) {}

  Form form() const {
    std::map<int64_t, int64_t> down, up;  // parameters by bytes of each
    for (int32_t b = 0; b < t_.layout.blocks(); ++b)
      for (const int32_t g : t_.layout.groups_of(b)) {
        const GroupLayout& group = t_.layout.group(g);
        if (!group.trainable) continue;
        const int64_t parameters = t_.layout.state_elements(group);
        down[dtype_bytes(group.state_type)] += parameters;
        if (group.has_master && t_.config.offload.parameters != OffloadSpace::kHost)
          up[dtype_bytes(group.type)] += parameters;
      }
    return {bytes(down), bytes(up), text(down) + " out" + (up.empty() ? "" : "; " + text(up) + " back")};
  }

 private:
  static int64_t bytes(const std::map<int64_t, int64_t>& parameters) {
    int64_t sum = 0;
    for (const auto& [each, count] : parameters) sum += each * count;
    return sum;
  }
  static std::string text(const std::map<int64_t, int64_t>& parameters) {
    std::vector<std::string> terms;
    for (const auto& [each, count] : parameters)
      terms.push_back(fmt::format("{} bytes for each of {} parameters", each, count));
    return fmt::format("{}", fmt::join(terms, " + "));
  }

  const MoveTerms& t_;
};

/// Weights: in for each sequence of uses in a micro-batch, and in and out for the update.
class WeightsForm {
 public:
  explicit WeightsForm(const MoveTerms& terms) : t_(terms), layout_(terms.layout) {}

  Form form() const {
    std::map<int64_t, int64_t> by_fetches;
    int64_t updated = 0, each = 0;
    for (int32_t b = 0; b < layout_.blocks(); ++b) {
      const int64_t bytes = weights(b);
      if (bytes > 0) by_fetches[fetches(b)] += bytes;
      if (is_updated(layout_, b)) updated += bytes;
    }
    std::vector<std::string> terms;
    for (const auto& [times, bytes] : by_fetches) {
      terms.push_back(times == 1 ? fmt::format("{}", bytes) : fmt::format("{}·{}", times, bytes));
      each += times * bytes;
    }
    return {updated, t_.micro_batches * each + updated,
            fmt::format("{} bytes of trained blocks out; {} micro-batches · ({}) + {} back", updated,
                        t_.micro_batches, fmt::join(terms, " + "), updated)};
  }

 private:
  int64_t weights(int32_t block) const {
    int64_t bytes = 0;
    for (const int32_t g : layout_.groups_of(block)) {
      const GroupLayout& group = layout_.group(g);
      if (group.borrowed) continue;
      const int64_t own =
          (layout_.weights_sharded() ? 1 : group.parts) * dtype_bytes(group.type, group.shard);
      bytes += own + alignment(own);
    }
    return bytes;
  }
  /// Fetches in a micro-batch. Loss and backward of the head are one op. Shards are fetched when weights are
  /// gathered from all ranks.
  int64_t fetches(int32_t block) const {
    const int32_t head = layout_.blocks() - 1;
    if (layout_.weights_sharded() && t_.strategy.reshard != ReshardAfterForward::kFull) return 1;
    if (block == head) return 1;
    if (block == 0) return t_.loss_reads_table ? 2 : 1;
    if (block < t_.first_trainable) return 1;
    return is_recomputed_early(block, head) ? 3 : 2;
  }
  /// True if other instructions come between the block's RECOMPUTE and its backward.
  bool is_recomputed_early(int32_t block, int32_t head) const {
    const RecomputeConfig& r = t_.config.recompute;
    if (!r.remakes.any() || r.every < 2) return false;
    const int64_t in_segment = (block - std::max(1, t_.first_trainable)) % r.every;
    return block != head - 1 && in_segment != r.every - 1;
  }

  const MoveTerms& t_;
  const ShardLayout& layout_;
};

/// Activations of the blocks whose backward is far enough from their forward.
class ActivationsForm {
 public:
  ActivationsForm(const plan::Plan& train, const MoveTerms& terms) : train_(train), t_(terms) {}

  Form form() const {
    if (t_.config.recompute.remakes.any() && t_.config.recompute.every > 1) return {};
    const int32_t first = std::max(1, t_.first_trainable);
    int32_t end = first;
    while (end < t_.layout.blocks() - 1 && moves(end)) ++end;
    int64_t saved = 0, inputs = 0;
    for (const plan::Instruction& n : train_.instructions) {
      if (n.op != Op::kForward || n.micro_batch != 0 || n.block < first || n.block >= end) continue;
      inputs += train_.slot(n[Operand::kX]).bytes;
      for (const plan::Use& use : n.uses)
        if (use.operand == Operand::kSaved || use.operand == Operand::kSavedForWeightPass)
          saved += train_.slot(use.slot).bytes;
    }
    const int64_t bytes = t_.micro_batches * (saved + inputs);
    return {
        bytes, bytes,
        fmt::format("{} micro-batches · ({} bytes that blocks {} to {} save + {} of their inputs), out and "
                    "back",
                    t_.micro_batches, saved, first, end - 1, inputs)};
  }

 private:
  /// Counts the instructions that call modules from the block's forward to the first of its backward.
  bool moves(int64_t block) const {
    const int64_t head = t_.layout.blocks() - 1, above = head - 1 - block, p = t_.config.offload.prefetch;
    const bool scores = std::any_of(train_.instructions.begin(), train_.instructions.end(),
                                    [](const plan::Instruction& n) { return n.op == Op::kLogprobs; });
    const int64_t backwards = t_.config.recompute.remakes.any() ? 2 * above : above;
    const int64_t distance = above + 1 + (scores ? 2 : 1) + backwards;
    return distance > 2 * p + 1;
  }

  const plan::Plan& train_;
  const MoveTerms& t_;
};

Form form_of(Cargo cargo, const plan::Plan& train, const MoveTerms& terms) {
  const bool on_host = terms.config.offload.optimizer == OffloadSpace::kHost;
  if (cargo == Cargo::kState) return on_host ? HostUpdateForm(terms).form() : StateForm(terms).form();
  if (terms.config.mesh.pp > 1) return {};  // the order of a stage's actions decides
  return cargo == Cargo::kWeights ? WeightsForm(terms).form() : ActivationsForm(train, terms).form();
}

}  // namespace

std::vector<Moves> moves_of(const plan::Plan& train, const MoveTerms& terms) {
  std::vector<Moves> all;
  for (size_t c = 0; c < plan::kCargoes; ++c) {
    Moves m;
    m.cargo = static_cast<Cargo>(c);
    for (const plan::Instruction& n : train.instructions) {
      if (!plan::is_move(n.op) || cargo_of(n.lane) != m.cargo) continue;
      const bool out = n.op == Op::kOffload;
      const int64_t bytes = moved_bytes(train, n);
      (out ? m.out : m.back) += bytes;
      m.space = train.slot(n[out ? Operand::kReceived : Operand::kSent]).space;
      if (m.space == plan::Space::kDisk) m.pages += whole_pages(bytes) - bytes;
    }
    if (m.out + m.back == 0) continue;
    const Form form = form_of(m.cargo, train, terms);
    if (form.out == m.out && form.back == m.back) m.formula = form.text;
    all.push_back(std::move(m));
  }
  return all;
}

}  // namespace hawser::parallel
