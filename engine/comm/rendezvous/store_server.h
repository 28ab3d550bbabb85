// StoreServer: where the ranks of a job find each other. It lives in rank 0's process on one thread, keeps
// small values by key, knows who has arrived, and tells everyone who vanished.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/rendezvous/socket.h"
#include "engine/comm/rendezvous/store_protocol.h"

namespace hawser::comm {

class StoreServer {
 public:
  /// Listens and starts its thread. Throws kUnavailable if it cannot.
  StoreServer(const HostPort& address, int32_t world_size);
  /// Answers all who wait that it ends, and ends.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int32_t port() const { return port_; }

 private:
  struct Client {
    Socket socket;
    std::string in, out;
    int32_t rank = -1;
    bool closing = false;  ///< once `out` is written
    bool waits = false;
    StoreOp waits_for = StoreOp::kGet;
    std::string key;
    double deadline = 0;
  };

  void main_loop();
  int next_timeout() const;
  void accept_all();
  void drop_oldest_stranger();
  void read_from(Client& client);
  void write_to(Client& client);
  void take_requests(Client& client);
  void carry_out(Client& client, const StoreRequest& request, std::string key, std::string value);
  void hello(Client& client, const std::string& value);
  void wait(Client& client, const StoreRequest& request, std::string key);
  void answer_waiting();
  void answer(Client& client, int32_t code, std::string_view value);
  void lost(const Client& client);
  std::string missing() const;

  const int32_t world_size_;
  Socket listener_;
  int32_t port_ = 0;
  int wake_[2] = {-1, -1};
  std::list<Client> clients_;
  std::map<std::string, std::string> values_;
  std::vector<bool> arrived_;
  int32_t arrivals_ = 0;
  std::string missed_;  ///< who had not arrived when the first rank gave up
  std::thread thread_;
};

}  // namespace hawser::comm
