#include "engine/ranks/ranks.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/ranks/collective_phases.h"
#include "kernels/include/levels.h"

namespace hawser::train {

Ranks::Ranks(const Assembly& assembly, bool inference, std::shared_ptr<Connection> connection,
             const Ranks* base)
    : assembly_(assembly),
      config_(assembly.config),
      connection_(std::move(connection)),
      borrowed_(base ? base->lent_ : nullptr),
      device_(choose_device(config_.device)),
      model_(model_of(config_, device_.tile_rows())),
      team_(connection_->ranks_here()),
      kernels_(agree_on_kernels()),
      threads_(choose_threads(config_, team_.size())),
      machines_(make_machines()),
      transport_(agree_on_peers()),
      stages_(make_plans_that_fit(model_, assembly_, target(), machines_.front()->room(device_, team_.size()),
                                  inference)),
      strategies_(strategies_of(config_)),
      shared_{model_, config_, stages_, strategies_, inference, !all_local()},
      ranks_(make_ranks(base)),
      choices_(rehearse_all()) {}

/// Calls fn(endpoint, local index) on the thread of every local rank. A rank that fails aborts the others.
template <typename Fn>
void Ranks::on_ends(Fn&& fn) const {
  team_.run([&](int32_t i) {
    comm::RankComm* const end = connection_->ends()[static_cast<size_t>(i)].get();
    try {
      fn(end, static_cast<size_t>(i));
    } catch (const AgreedError&) {
      throw;
    } catch (...) {
      throw announce_failure(end, Error::caught());
    }
  });
}

/// Returns the config's kernels, or those of a lower CPU level if another rank of the world supports no more.
/// This is the first exchange with the other ranks.
const kernels::KernelTable& Ranks::agree_on_kernels() const {
  const kernels::KernelTable& mine = choose_kernels(config_);
  if (world() == 1) return mine;
  const auto my_level = static_cast<kernels::CpuLevel>(kernels::cpu_level_from_name(mine.name));
  kernels::CpuLevel level = my_level;
  on_ends([&](comm::RankComm* end, size_t i) {
    const kernels::CpuLevel lowest =
        agree_on_start(end, {assembly_.tree.to_json(), my_level, kind_name(device_.kind), device_.reason,
                             assembly_.tokens ? assembly_.tokens->digest() : ""});
    if (i == 0) level = lowest;
  });
  return kernels::cpu_kernels(level);
}

std::vector<std::unique_ptr<Machine>> Ranks::make_machines() const {
  std::vector<std::unique_ptr<Machine>> machines;
  const std::vector<std::unique_ptr<comm::RankComm>>& ends = connection_->ends();
  for (int32_t i = 0; i < team_.size(); ++i) {
    const bool chooses = ends.empty() || ends[static_cast<size_t>(i)]->rank() == 0;
    machines.push_back(std::make_unique<Machine>(device_, config_, kernels_, threads_, i, chooses));
  }
  return machines;
}

TransportChoice Ranks::agree_on_peers() const {
  if (world() == 1 || config_.device == "cpu") return {};
  TransportChoice agreed;
  on_ends([&](comm::RankComm* end, size_t i) {
    const TransportChoice choice =
        agree_on_transport(end, device_, config_.comm.device_transport, machines_[i]->device().info());
    if (i == 0) agreed = choice;
  });
  return agreed;
}

Target Ranks::target() const {
  Target target = machines_.front()->target();
  target.peers = transport_.peers;
  if (!all_local()) target.transport_bytes = comm::process_transport_bytes(world());
  return target;
}

/// The sizes of transfers follow from the plans, so plans are compared before ranks are made.
std::vector<std::unique_ptr<Rank>> Ranks::make_ranks(const Ranks* base) const {
  if (world() > 1) {
    const PlanDigest digest = digest_of(stages_, model_, config_, shared_.inference);
    on_ends([&](comm::RankComm* end, size_t) { agree_on_plans(end, digest); });
  }
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<size_t>(team_.size()));
  if (world() == 1)
    ranks[0] =
        std::make_unique<Rank>(shared_, 0, nullptr, machines_.front().get(), base ? &base->first() : nullptr);
  else
    on_ends([&](comm::RankComm* end, size_t i) {
      const Rank* const theirs = base ? &base->at(static_cast<int32_t>(i)) : nullptr;
      ranks[i] = std::make_unique<Rank>(shared_, end->rank(), end, machines_[i].get(), theirs);
    });
  return ranks;
}

Choices Ranks::rehearse_all() const {
  Choices choices;
  on_each([&](Rank& rank, int32_t i) {
    const Choices chosen = rehearse(&rank, config_.deterministic);
    if (i == 0) choices = chosen;
  });
  return choices;
}

bool Ranks::on_any_process(bool here) const {
  if (all_local()) return here;
  bool result = here;
  on_each([&](Rank& rank, int32_t i) {
    const bool any = on_any_rank(rank.groups().dp.get(), here);
    if (i == 0) result = any;
  });
  return result;
}

std::vector<std::string> Ranks::from_all_processes(const std::function<std::string()>& make) const {
  if (all_local()) return {make()};
  std::vector<std::string> answers;
  on_each([&](Rank& rank, int32_t i) {
    std::vector<std::string> all = CollectivePhases(rank.groups().dp.get()).from_all(make);
    if (i == 0) answers = std::move(all);
  });
  return answers;
}

bool Ranks::on_first_process(const std::function<bool()>& fn) const {
  if (all_local()) return fn();  // an allocation failure must not hide that fn succeeded
  const auto answer = [&] { return std::string(first().number() == 0 && fn() ? "1" : "0"); };
  return from_all_processes(answer).front() == "1";
}

bool Ranks::reports_losses(const Rank& rank) const {
  const std::vector<int64_t>& stage_of = stages_.front().strategy.stage_of;
  return strategies_.is_first_of_row(rank.number()) &&
         rank.stage() == (stage_of.empty() ? 0 : stage_of.back());
}

void Ranks::abort_out_of_memory() const noexcept {
  if (all_local()) return;
  broken_ = true;
  connection_->ends().front()->abort(Error::out_of_memory());
}

void Ranks::require_usable() const {
  if (broken_)
    fail(Code::kAborted,
         "an earlier call failed on some ranks, so this engine can no longer be used; create a new engine "
         "and load the last checkpoint");
  if (const char* const what = changing_)
    fail(Code::kFailedPrecondition, "{} failed after it had changed some weights; load a checkpoint", what);
}

void Ranks::require_training(const char* what) const {
  if (shared_.inference)
    fail(Code::kFailedPrecondition,
         "{}: this engine was created for inference (HWS_ENGINE_INFERENCE) and cannot train", what);
}

}  // namespace hawser::train
