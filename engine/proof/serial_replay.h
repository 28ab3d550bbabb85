// SerialReplay: one rank that does the work of N data-parallel ranks one after the other, without buckets,
// shards or communication. Each rank's gradients come from the serial plan, divided by the global token
// count. Plain loops sum them in the documented order, and one serial optimizer step follows. Real ranks
// must compute the same bits (promise L2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/exact_sum.h"
#include "engine/config/config_tree.h"
#include "engine/config/resolved_config.h"
#include "engine/execute/step_result.h"
#include "engine/nn/parameter.h"
#include "engine/parallel/strategy.h"
#include "engine/proof/rank_sums.h"
#include "engine/state/tensors.h"

namespace hawser::train {

class SerialReplay {
 public:
  /// `config` has several ranks and takes pushed batches. The initial weights are those with which its ranks
  /// would start.
  explicit SerialReplay(const config::ConfigTree& config);
  ~SerialReplay();

  struct Step {
    GroupGradients sums;
    double loss = 0, grad_norm = 0;  ///< the norm is a plain f64 sum
    int64_t rows = 0, tokens = 0;
  };
  /// Computes the gradients of the next global batch.
  Step forward_backward(const BatchView& batch);
  /// Takes the optimizer step with the gradients of `step`. `grad_norm` is the norm of the real ranks. It is
  /// used for clipping, so that its last bit cannot cause a difference.
  void commit(const Step& step, double grad_norm);

  /// The sums of all micro-batches' gradients, for the step that forward_backward would take next: in f64,
  /// and in f32 in forward and reverse order. They show how far apart two orders of summation lie.
  struct Orders {
    std::vector<std::vector<double>> f64;
    GroupGradients ascending, descending;
  };
  Orders sum_orders(const BatchView& batch);

  /// Returns the distance between the gradients of the next global batch and those of a twin
  /// (permuted_model.h), both without dropout: the length of the difference, by parameter.
  std::map<std::string, double> twin_distances(const BatchView& batch);
  /// Returns the gradients of the first global batch in f64 (f64_gradients.h), in the layout of FlatLayout.
  /// `*router_margin` receives the margin of the closest choice of experts.
  std::vector<double> f64_gradients(const BatchView& batch, double* router_margin) const;
  /// Returns what routers counted in the last forward_backward (nn/moe/balance.h).
  const std::vector<int64_t>& tallies() const;

  const nn::ParameterTable& table() const;
  /// Returns the gradient of `p` in `sums`.
  const float* gradient(const GroupGradients& sums, const nn::Parameter& p) const;
  /// Copies weights or moments as f32. Returns false if there are none.
  bool state(TensorKind kind, const nn::Parameter& p, std::vector<float>* out) const;

 private:
  class Player;
  GroupGradients play_all(Player* player, const BatchView& batch) const;
  int64_t micro_batches(const BatchView& batch) const { return config_.batch.micro_batches(batch.rows); }
  /// Returns the first row of a rank's micro-batch in the global batch.
  int64_t row(const BatchView& batch, int64_t rank, int64_t micro_batch) const;
  uint64_t cursor() const { return static_cast<uint64_t>(consumed_); }

  const config::ConfigTree tree_;
  const config::ResolvedConfig config_;
  const parallel::DataParallelStrategy strategy_;
  const bool sums_each_;  // ranks are summed after each micro-batch
  const std::unique_ptr<Player> player_, single_;
  int64_t steps_ = 0, consumed_ = 0;  // consumed_: in rows
};

}  // namespace hawser::train
