// Ranks: the ranks of an engine in this process, with their threads, devices, plans, memory and groups.
// Everything the engine does with tensors goes through on_each.
//
// Threading: const throughout; concurrent calls of on_each take turns. Across processes, on_each is
// collective if the function it runs is: all processes make the same calls in the same order. Errors: an
// error on one rank ends the call on all ranks of the world. If all ranks threw it together (AgreedError),
// the engine stays usable. If one rank failed alone, the ranks are no longer synchronised, and every later
// call is refused.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/ranks/agreement.h"
#include "engine/ranks/choose_transport.h"
#include "engine/ranks/connection.h"
#include "engine/ranks/machine.h"
#include "engine/ranks/rank.h"
#include "engine/ranks/rank_team.h"
#include "engine/ranks/rehearsal.h"

namespace hawser::train {

class Ranks {
 public:
  /// `assembly` must outlive this object. `base`: the ranks of another engine whose weights these ranks read
  /// (base_engine.h), or null. Weights are zero until initial_weights.h fills them. Collective over the
  /// world.
  Ranks(const Assembly& assembly, bool inference, std::shared_ptr<Connection> connection,
        const Ranks* base = nullptr);

  const Assembly& assembly() const { return assembly_; }
  const config::ResolvedConfig& config() const { return config_; }
  bool inference() const { return shared_.inference; }
  const nn::Model& model() const { return model_; }
  const nn::ParameterTable& table() const { return model_.table(); }
  const parallel::Strategies& strategies() const { return strategies_; }
  /// Returns the plans of all pipeline stages; Rank::plans has a rank's own.
  const std::vector<EnginePlans>& stages() const { return stages_; }
  const DeviceChoice& device() const { return device_; }
  const kernels::KernelTable& kernels() const { return kernels_; }  ///< the CPU's
  int32_t threads() const { return threads_; }                      ///< of each rank
  const TransportChoice& transport() const { return transport_; }
  const Choices& choices() const { return choices_; }
  const Connection& connection() const { return *connection_; }
  /// Returns the target that the plans were made for.
  Target target() const;

  int64_t world() const { return connection_->world(); }
  int32_t here() const { return team_.size(); }  ///< ranks of this process
  bool all_local() const { return world() == here(); }
  bool is_local(int64_t rank) const {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& r) { return r->number() == rank; });
  }
  Rank& at(int32_t i) const { return *ranks_[static_cast<size_t>(i)]; }
  Rank& first() const { return at(0); }
  /// True if this rank reports the losses of its rows. Of the ranks that compute the same rows, one does.
  bool reports_losses(const Rank& rank) const;

  /// Calls fn(rank, index in this process) for every rank of this process, each on its own thread, and
  /// rethrows the first exception. If a rank fails alone, all others fail too. Allocates nothing.
  template <typename Fn>
  void on_each(Fn&& fn) const;

  // The following functions return the same result on all processes.

  /// Returns true if `here` is true on any process.
  bool on_any_process(bool here) const;
  /// Returns what `make` returns on each process, in order of rank. If one fails, all throw its error.
  std::vector<std::string> from_all_processes(const std::function<std::string()>& make) const;
  /// Runs `fn` only on the process of rank 0. Returns its result, or throws its error, on all processes.
  bool on_first_process(const std::function<bool()>& fn) const;

  /// True if this engine reads weights of another engine.
  bool borrows_weights() const { return borrowed_ != nullptr; }
  /// True while another engine reads this engine's weights.
  bool has_borrowers() const { return lent_.use_count() > 1; }

  /// True if the ranks are no longer synchronised; every further call of on_each is refused.
  bool broken() const { return broken_; }
  /// Call if this process has run out of memory in a collective call. Aborts the call on the other processes,
  /// which would otherwise block until their deadline.
  void abort_out_of_memory() const noexcept;
  /// Says what is changing the state of all ranks, such as "the last load", or null once it is whole again.
  /// If that fails, the state is a mix of two, and on_each throws until a load completes.
  void set_changing(const char* what) const { changing_ = what; }
  bool is_changing() const { return changing_ != nullptr; }
  /// Throws what on_each throws if the ranks are broken, or their state a mix of two.
  void require_usable() const;
  /// Throws kFailedPrecondition for an engine created for inference.
  void require_training(const char* what) const;

 private:
  template <typename Fn>
  void on_ends(Fn&& fn) const;
  const kernels::KernelTable& agree_on_kernels() const;
  std::vector<std::unique_ptr<Machine>> make_machines() const;
  TransportChoice agree_on_peers() const;
  std::vector<std::unique_ptr<Rank>> make_ranks(const Ranks* base) const;
  Choices rehearse_all() const;

  const Assembly& assembly_;
  const config::ResolvedConfig& config_;
  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<const char> lent_ =
      std::make_shared<const char>('\0');  // its use count is 1 + the number of engines that borrow
  const std::shared_ptr<const char> borrowed_;
  const DeviceChoice device_;
  const nn::Model model_;
  mutable RankTeam team_;
  const kernels::KernelTable& kernels_;
  const int32_t threads_;
  const std::vector<std::unique_ptr<Machine>> machines_;  // indexed by rank of this process
  const TransportChoice transport_;
  const std::vector<EnginePlans> stages_;
  const parallel::Strategies strategies_;
  const Rank::Shared shared_;
  mutable std::atomic<bool> broken_{false};
  mutable std::atomic<const char*> changing_{nullptr};
  const std::vector<std::unique_ptr<Rank>> ranks_;
  const Choices choices_;
};

template <typename Fn>
void Ranks::on_each(Fn&& fn) const {
  require_usable();
  team_.run([&](int32_t i) {
    Rank& rank = at(i);
    try {
      fn(rank, i);
    } catch (const AgreedError&) {
      throw;
    } catch (...) {
      if (!rank.comm()) throw;
      broken_ = true;
      throw announce_failure(rank.comm(), Error::caught());
    }
  });
}

}  // namespace hawser::train
