#include "engine/parallel/traffic_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/nn/latent_attention.h"

namespace hawser::parallel {
namespace {

using plan::Op;

/// Transfers of gradients and weights.
class TransferFormulas {
 public:
  explicit TransferFormulas(const FormulaTerms& terms)
      : t_(terms),
        s_(terms.strategy),
        times_(s_.reduces_each(terms.micro_batches) ? "A" : ""),
        twice_(times_.empty() ? "2" : "2A") {}

  std::string model_sum(const char* ranks) const {
    return fmt::format("2{}({}-1)/{}·Φ{}", times_, ranks, ranks, ranks);
  }
  std::string gradients() const { return times_ + "(N-1)/N·Φg" + experts(times_ + "(M-1)/M·Eg"); }
  std::string sums() const { return "(N-1)/N·Φs" + experts("(M-1)/M·Es"); }
  /// f32 addends, or records, go around the ring once, then sums in the wire type.
  std::string replicas() const {
    if (is_block_type(s_.records))
      return times_ + "(R-1)/R·(Φr+Φr')/N" + experts(times_ + "(R-1)/R·(Er+Er')/M");
    if (s_.wire != DType::kF32) return times_ + "(R-1)/R·(Φs+Φg)/N" + experts(times_ + "(R-1)/R·(Es+Eg)/M");
    return twice_ + "(R-1)/R·Φs/N" + experts(twice_ + "(R-1)/R·Es/M");
  }
  std::string weights(const plan::Plan& train) const {
    if (s_.stage < 3) return "(N-1)/N·Φw" + experts("(M-1)/M·Ew");
    return gathers_follow(train) ? gathers() : "";
  }

 private:
  /// The part of a formula that is of experts which ranks divide.
  std::string experts(const std::string& formula) const {
    return t_.layout.options().mesh.degree(mesh::Axis::kEp) > 1 ? "+" + formula : "";
  }

  /// Stage 3. A block is gathered for its forward and again for its backward. The head is gathered once,
  /// because loss and backward are one op. The embedding is gathered for the look-up and, if the loss reads
  /// it, for the head.
  std::string gathers() const {
    const bool all = t_.first_trainable <= 1, tied = t_.local.loss_reads_table();
    switch (s_.reshard) {
      case ReshardAfterForward::kKeep:
        return "A(N-1)/N·Φw" + experts("A(M-1)/M·Ew");
      case ReshardAfterForward::kFull:
        return fmt::format("A(N-1)/N·({}Φe+{}+Φh){}", tied ? "2" : "", all ? "2Φb" : "Φb+Φb'",
                           experts(all ? "2A(M-1)/M·Eb" : "A(M-1)/M·(Eb+Eb')"));
      case ReshardAfterForward::kGroup:
        return fmt::format("A(N-1)/N·Φw+A(S-1)/S·({}{})", tied ? "Φe+" : "", all ? "Φb" : "Φb'");
    }
    return "";
  }

  /// Whether the plan gathers each block so often; those of pipelines and of recompute may not.
  bool gathers_follow(const plan::Plan& train) const {
    std::map<std::tuple<int32_t, bool, bool>, int64_t> gathers;
    for (const plan::Instruction& n : train.instructions) {
      if (n.op != Op::kUnshard || n.sent_bytes == 0) continue;
      const bool small = train.slot(n[plan::Operand::kSent]).role == plan::Role::kSecondary;
      ++gathers[{n.block, n.experts, small}];
    }
    return std::all_of(gathers.begin(), gathers.end(), [&](const auto& entry) {
      const auto& [block, of_experts, small] = entry.first;
      return entry.second == t_.micro_batches * gathers_of(block, small);
    });
  }
  int64_t gathers_of(int32_t block, bool small) const {
    const bool again = block == 0 ? t_.local.loss_reads_table()
                                  : block >= t_.first_trainable && block < t_.layout.blocks() - 1;
    if (s_.reshard == ReshardAfterForward::kKeep) return 1;
    if (s_.reshard == ReshardAfterForward::kFull) return again ? 2 : 1;
    return !small || again ? 1 : 0;
  }

  const FormulaTerms& t_;
  const DataParallelStrategy& s_;
  std::string times_, twice_;
};

/// Exchanges inside blocks.
class ExchangeFormulas {
 public:
  explicit ExchangeFormulas(const FormulaTerms& terms) : t_(terms), mesh_(terms.mesh), local_(terms.local) {}

  std::string forward() const {
    std::string text = whole_rows() ? "(4L+2)(t-1)/t·4RC" : "(t-1)/t·RC(2Le+8L+4)";
    if (sparse(0)) text = "(t-1)/t·RC((2L-S)(e+4)+4)+2S(t-1)/t·4B(2E+1)";
    text = tensor(text, 0, "+2(t-1)/t·4M") + context("L", "e");
    if (sparse(0) && mesh_.cp > 1) text += "+2S(c-1)/c·4B(2E+1)";
    if (sparse(0) && mesh_.ep > 1) text += "+S(p-1)(4E+Q(2Ce+4))";
    return "A(" + text + ")";
  }
  std::string loss() const {
    return "A((t-1)·" + std::string(t_.teacher ? "20R" : "12R") +
           (whole_rows() ? "+2(t-1)/t·4RC)" : "+(t-1)/t·RC(8+x))");
  }
  std::string backward() const {
    const bool embedding = t_.first_trainable == 0, experts = sparse(t_.first_trainable);
    std::string text = embedding ? "(t-1)/t·RC(4le+8l+4)" : "(t-1)/t·RC(4le+8l)";
    if (whole_rows()) text = "4l(t-1)/t·4RC";
    if (experts) text = embedding ? "(t-1)/t·RC((2l-s)(2e+4)+4)" : "(t-1)/t·RC(2l-s)(2e+4)";
    text = tensor(text, t_.first_trainable, "+4(t-1)/t·4m") + context("l", "(e+4)");
    if (experts && mesh_.ep > 1) text += "+s(p-1)(Q(2Ce+4)+Q'(Ce+4))";
    return "A(" + text + ")";
  }

 private:
  bool whole_rows() const { return !mesh_.sequence_parallel; }

  template <typename Holds>
  bool any_layer(int64_t first_block, Holds holds) const {
    for (int64_t layer = std::max<int64_t>(0, first_block - 1); layer < local_.layers; ++layer)
      if (holds(layer)) return true;
    return false;
  }
  bool sparse(int64_t first_block) const {
    return any_layer(first_block, [&](int64_t layer) { return local_.is_sparse(layer); });
  }
  /// Whether outputs whose inputs are divided have magnitudes, whose norms are summed.
  bool norms(int64_t first_block) const {
    return local_.adapter.dora && any_layer(first_block, [&](int64_t layer) {
             const auto adapted = [&](const char* module) {
               return nn::adapter_of(local_.adapter, fmt::format("blocks.{}.{}", layer, module)).rank > 0;
             };
             return adapted("attention.o") || (!local_.is_sparse(layer) && adapted("mlp.down"));
           });
  }
  std::string tensor(const std::string& text, int64_t first_block, const char* of_norms) const {
    if (mesh_.tp == 1) return "";
    return text + (norms(first_block) ? of_norms : "");
  }
  std::string context(const std::string& blocks, const std::string& bytes) const {
    if (mesh_.cp == 1) return "";
    const bool latent = local_.is_latent();
    const std::string twice = (mesh_.tp > 1 ? "+" : "") + std::string(latent ? "" : "2") + blocks;
    const std::string width = latent ? "(D+V)" : "D";
    if (mesh_.cp_mode == mesh::ContextMode::kUlysses) return twice + "(c-1)R(h+k)" + width + "e";
    const bool compressed =
        mesh_.cp_mode == mesh::ContextMode::kRing && nn::sends_compressed(local_, t_.element_bytes);
    return twice + (compressed ? "(c-1)R(r+P)" : "(c-1)RK" + width) + bytes;
  }

  const FormulaTerms& t_;
  const mesh::MeshConfig& mesh_;
  const nn::ModelConfig& local_;
};

}  // namespace

std::string traffic_formula(Op op, const plan::Plan& train, const FormulaTerms& terms) {
  const TransferFormulas transfers(terms);
  const ExchangeFormulas exchanges(terms);
  const bool whole_model = terms.mesh.pp == 1;  // a stage has some of the blocks
  switch (op) {
    case Op::kReduceTp:
      return transfers.model_sum("t");
    case Op::kReduceKv:
      return transfers.model_sum("k");
    case Op::kReduceGrad:
      return transfers.gradients();
    case Op::kReduceReplicas:
      return transfers.replicas();
    case Op::kGatherGrad:
      return transfers.sums();
    case Op::kUnshard:
      return transfers.weights(train);
    case Op::kForward:
      return whole_model ? exchanges.forward() : "";
    case Op::kLoss:
      return whole_model && terms.local.ahead == 0 ? exchanges.loss() : "";
    case Op::kBackward:
      return whole_model ? exchanges.backward() : "";
    default:
      return "";
  }
}

}  // namespace hawser::parallel
