// FaultyComm: a Comm that wraps another one and makes one of its ranks fail, or be late, at a call that the
// test chooses.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "engine/comm/comm.h"

namespace hawser::testing {

/// An action of the victim before it issues a call: it may throw, sleep, or record the call.
using Mishap = std::function<void(comm::Operation operation)>;

/// All ranks are threads of this process over a local comm. Calls time out after `timeout_seconds`.
class FaultyComm final : public comm::Comm {
 public:
  /// Represents connect among operations.
  static constexpr auto kConnect = comm::Operation::kCount;

  FaultyComm(int32_t ranks, int32_t victim, double timeout_seconds, Mishap mishap);
  /// The mishap has an effect only between arm and disarm.
  void arm() { armed_ = true; }
  void disarm() { armed_ = false; }
  /// While it is set, the victim calls all_gather with another type of the same width: the transfer works as
  /// usual, but the call is wrong.
  void mistake_types(bool mistakes) { mistakes_ = mistakes; }
  DType type_for(int32_t rank, DType type) const;
  double timeout_seconds() const { return timeout_seconds_; }

  int32_t world_size() const override { return inner_->world_size(); }
  std::span<const int32_t> local_ranks() const override { return inner_->local_ranks(); }
  std::unique_ptr<comm::RankComm> connect(int32_t rank, const comm::CommOptions& options) override;
  void abort(const Error& error) noexcept override { inner_->abort(error); }

  /// Runs the mishap on the victim, before each call.
  void meet(int32_t rank, comm::Operation operation) const {
    if (armed_ && rank == victim_) mishap_(operation);
  }

 private:
  const std::shared_ptr<comm::Comm> inner_;
  const int32_t victim_;
  const double timeout_seconds_;
  const Mishap mishap_;
  std::atomic<bool> armed_{false}, mistakes_{false};
};

}  // namespace hawser::testing
