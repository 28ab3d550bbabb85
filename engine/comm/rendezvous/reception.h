// Reception: accepts connections, lets each prove in a handshake that it belongs to the job, and passes on
// those that do. Other connections cost a bounded amount of memory, descriptors and time, and nothing waits
// for them.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "engine/comm/identity/handshake.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class Reception {
 public:
  static constexpr size_t kMostStrangers = 128;  ///< most handshakes at a time; one more closes the oldest
  static constexpr double kPatience = 5;         ///< seconds for a whole handshake

  /// Returns why a member of the job is not admitted; "" if it is.
  using RejectionReason = std::function<std::string(int32_t rank, Purpose purpose)>;
  using Enter = std::function<void(Socket socket, int32_t rank, Purpose purpose)>;

  Reception(Socket listener, const Membership& self) : listener_(std::move(listener)), self_(self) {}

  /// Appends the descriptors to poll.
  void add_polled(std::vector<pollfd>& polled) const;
  /// Returns the latest time to call serve, whatever poll returns.
  double deadline() const;
  /// Proceeds as far as possible without waiting.
  void serve(const RejectionReason& rejection_reason, const Enter& enter);
  /// Stops accepting and listening.
  void close();

 private:
  struct Stranger {
    Socket socket;
    Greeter greeter;
    std::string in, out;
    double deadline = 0;
    bool refused = false;
  };

  void accept_some();
  void read_from(Stranger& stranger);
  void talk(Stranger& stranger, const RejectionReason& rejection_reason, const Enter& enter);

  Socket listener_;
  const Membership& self_;
  std::list<Stranger> strangers_;
  double resting_until_ = 0;  ///< descriptors ran out; wait until some are freed
};

}  // namespace hawser::comm
