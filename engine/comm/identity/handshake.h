// Handshake: lets two processes verify that they belong to one job, before anything else is sent.
//
//   connecting side  greeting   version, whether it has a secret, a fresh nonce
//   listening side   challenge  the same, and its proof: HMAC-SHA256(secret, "listener" greeting nonce)
//   connecting side  claim      rank, world, job, purpose;
//                               HMAC-SHA256(secret, "connector" greeting nonce claim)
//   listening side   verdict    welcome, or a status and the reason
//
// Both sides prove that they know the secret without revealing it. Nonces are fresh, so a recorded
// conversation is useless, and the two proofs differ, so none can be sent back to its author. Without a
// secret on both sides the proofs are empty, and everything else is still checked. Sizes are fixed and small.
// The connection itself is neither encrypted nor authenticated afterwards. A refusal reveals nothing about
// the job to a side that has not proven that it belongs to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/identity/secret.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

/// The identity of one process within its job.
struct Membership {
  int32_t rank = 0, world_size = 1;
  std::string job;                       ///< must be the same for all ranks; at most kMostJobBytes
  std::shared_ptr<const Secret> secret;  ///< nullptr: none
};
inline constexpr size_t kMostJobBytes = 127;

enum class Purpose : uint32_t {
  kJoin = 1,  ///< connects to the rendezvous
  kLink = 2,  ///< connects two ranks, for data
};

/// Performs the connecting side of a handshake, until `deadline` or until `interrupt` (a descriptor, -1:
/// none) becomes readable. Returns false if the connection ended or was silent before a verdict, for example
/// because the listening side was busy with strangers. The caller may then try again, and `why` has the
/// reason. Throws
///   kPermission       the other side does not know this rank's secret, has none, or did not accept ours
///   kAbiMismatch      another version
///   kInvalidArgument  another job or world size, or a rank that is taken
bool introduce(const Socket& socket, const Membership& self, int32_t to_rank, Purpose purpose,
               double deadline, std::string* why, int interrupt = -1);

struct Claim;

/// The listening side of one connection, non-blocking: takes received bytes, and appends bytes to send.
class Greeter {
 public:
  enum class State {
    kTalking,  ///< it needs more bytes
    kClaimed,  ///< the other side belongs to the job and claims rank(): now admit or refuse it
    kRefused,  ///< send the remaining output, then close
  };
  explicit Greeter(const Membership& self) : self_(self) {}

  /// Consumes as many bytes as it can from the beginning of `in`.
  State take(std::string& in, std::string& out);
  int32_t rank() const { return rank_; }
  Purpose purpose() const { return purpose_; }
  static void admit(std::string& out);
  static State refuse(std::string& out, Code code, const std::string& why);

 private:
  std::string another_job(const Claim& claim) const;
  State challenge(const std::string& greeting, std::string& out);
  State judge(const std::string& claim, std::string& out);

  const Membership& self_;
  std::string transcript_;  ///< greeting and nonce; empty until a greeting has arrived
  int32_t rank_ = -1;
  Purpose purpose_ = Purpose::kJoin;
};

}  // namespace hawser::comm
