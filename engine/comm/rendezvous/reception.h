// Reception: where strangers come in. It accepts connections, lets each show in a handshake that it belongs
// to the job, and hands over those that do. Whatever others send costs a bounded amount of memory, a bounded
// number of descriptors and seconds; nobody waits for them.
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
  static constexpr size_t kMostStrangers = 128;  ///< in conversation at a time; one more ends the oldest
  static constexpr double kPatience = 5;         ///< seconds for a whole handshake

  /// Why a member of the job may not come in; "": it may.
  using Objection = std::function<std::string(int32_t rank, Purpose purpose)>;
  using Enter = std::function<void(Socket socket, int32_t rank, Purpose purpose)>;

  Reception(Socket listener, const Membership& self) : listener_(std::move(listener)), self_(self) {}

  /// Appends what to poll for.
  void add_polled(std::vector<pollfd>& polled) const;
  /// When to call serve at the latest, whatever poll says.
  double deadline() const;
  /// Goes as far as it gets without waiting.
  void serve(const Objection& objection, const Enter& enter);
  /// Nobody comes in any more, and nothing listens.
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
  void talk(Stranger& stranger, const Objection& objection, const Enter& enter);

  Socket listener_;
  const Membership& self_;
  std::list<Stranger> strangers_;
  double resting_until_ = 0;  ///< out of descriptors: what frees some is not ours to do
};

}  // namespace hawser::comm
