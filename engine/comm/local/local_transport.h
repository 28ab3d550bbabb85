// LocalTransport: the transport between threads of one process. Members enter a call, work on each other's
// memory, and leave. Groups share nothing, so lanes only need their threads.
#pragma once

#include <map>
#include <memory>

#include "engine/comm/comm.h"
#include "engine/comm/local/collectives.h"
#include "engine/comm/transport.h"

namespace hawser::comm {

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Session> session, int32_t rank, const CommOptions& options);

  int32_t rank() const override { return rank_; }
  int32_t world_size() const override { return session_->ranks(); }
  int32_t lane(const Lane& lane) override;
  void add_group(int32_t group, int32_t lane, const std::vector<int32_t>& members, const std::string& name,
                 LinkTopology pairs) override;
  void run(const Call& call) override;
  [[noreturn]] void find_cause(const Call& call, const Error& error) override;
  bool abort(const Error& error) noexcept override;
  Fault& fault() override { return session_->fault(); }
  void leave() noexcept override { session_->leave(rank_); }
  void waits_for(const Call* call) noexcept override;
  int64_t bytes() const override { return 0; }  // members read each other's memory directly
  int64_t charged_bytes(const Call& call) override;

 private:
  struct Group {
    std::shared_ptr<Meeting> meeting;
    int32_t member = 0;
    double timeout_seconds = 0;
    int64_t charged_bytes = 0;  ///< charged bytes (ledger.h) so far; only its lane's thread uses it
    uint64_t calls = 0;         ///< calls that it has entered; device calls are not included
    std::unique_ptr<LocalCollectives> collectives;
    Gate& gate() const { return meeting->sides[static_cast<size_t>(member)].gate; }
  };
  Group& group_of(const Call& call);
  void collective(Group& group, const Call& call);
  void send(Group& group, const Call& call);
  void recv(Group& group, const Call& call);
  template <class Body>
  void guarded(Group& group, const Body& body);
  template <class Ready, class Came>
  void wait_for_all(const Group& group, const Call& call, double deadline, const char* verb,
                    const Ready& ready, const Came& came);
  template <class Ready>
  void wait_for_peer(const Group& group, const Call& call, const char* verb, const Ready& ready);
  template <class Body>
  void touch_memory(const Group& group, const Body& body);
  [[noreturn]] void fail_missing(const Group& group, const Call& call, const std::vector<int32_t>& missing,
                                 const char* verb) const;
  /// Returns the ranks that cause the delay of `missing` ranks: those that are not themselves waiting for
  /// another rank.
  std::vector<int32_t> root_causes(const std::vector<int32_t>& missing) const;
  void notify_members(const Group& group);
  void slow_down(Group& group, double since, int64_t bytes);

  const std::shared_ptr<Session> session_;
  const int32_t rank_;
  const double timeout_seconds_, bandwidth_limit_;
  const kernels::KernelTable& kernels_;
  std::vector<Lane> lanes_;  ///< used only by the issuing thread, like made_
  std::mutex groups_mutex_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::pair<std::vector<int32_t>, std::string>, int32_t> made_;
};

}  // namespace hawser::comm
