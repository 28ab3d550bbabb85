// StoreServer: the rendezvous of a job's ranks. It runs in rank 0's process on one thread, stores small
// values by key and records which ranks have arrived. Once all ranks watch, it stops listening. From then on
// it sends and expects heartbeats, and notifies all ranks if one failed, vanished or fell silent. If two
// processes come with the same rank, the second is refused; if another rank is still missing soon after, all
// ranks fail with that reason.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/reception.h"
#include "engine/comm/rendezvous/store_protocol.h"

namespace hawser::comm {

class StoreServer {
 public:
  /// Listens and starts its thread. `self` is the membership of rank 0. Throws kUnavailable on failure.
  StoreServer(const HostPort& address, const Membership& self, double silence_seconds);
  /// Notifies all connected ranks that it ends, and ends.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int32_t port() const { return port_; }

 private:
  struct Client {
    Socket socket;
    int32_t rank = -1;
    std::string in, out;
    bool waits = false, watches = false, left = false, told = false;
    StoreOp waits_for = StoreOp::kGet;
    std::string key;
    double deadline = 0, heard = 0;
    std::vector<int32_t> wants;  ///< ranks of a kMeet, and the number of them that have sent theirs
    size_t came = 0;
  };
  using Said = std::map<int32_t, std::string>;  ///< by rank

  void main_loop();
  void serve();
  void break_down(const Error& error) noexcept;
  void serve_all(const std::vector<pollfd>& polled);
  int next_timeout() const;
  std::string rejection_reason(int32_t rank);
  void enter(Socket socket, int32_t rank);
  void read_from(Client& client);
  void write_to(Client& client);
  void take_requests(Client& client);
  static bool out_of_turn(const Client& client, StoreOp op);
  void carry_out(Client& client, const StoreRequest& request, std::string key, std::string value);
  void wait(Client& client, const StoreRequest& request, std::string key);
  void watch(Client& client);
  void answer_waiting();
  bool meet(Client& client, const std::string& value);
  void answer_meeting(Client& client, double now);
  void give_beats();
  void look_for_silence();
  void look_for_twice();
  void tell_fault();
  void answer(Client& client, int32_t code, std::string_view value);
  void lost(const Client& client);
  void set_fault(Code code, std::string message);
  std::string missing(const std::vector<bool>& there) const;

  const Membership self_;
  const double silence_seconds_;
  int32_t port_ = 0;
  std::optional<Reception> reception_;
  int wake_[2] = {-1, -1};
  std::list<Client> clients_;
  std::map<std::string, std::string> values_;
  std::map<std::string, Said> meetings_;  ///< by key
  // By rank: whether it is connected, and whether it has sent kArrived. Rank 0 may end as soon as all have
  // sent it, because no rank makes another request afterwards.
  std::vector<bool> entered_, arrived_;
  int32_t entries_ = 0, arrivals_ = 0, watchers_ = 0;
  double next_beat_ = 0;
  std::string missed_;                   ///< ranks that had not arrived when the first rank gave up
  int32_t twice_ = -1;                   ///< a rank for which two processes came
  double twice_deadline_ = kNoDeadline;  ///< all ranks must have arrived by then; otherwise all fail
  std::optional<Error> fault_;
  std::thread thread_;
};

}  // namespace hawser::comm
