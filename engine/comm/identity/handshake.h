// Handshake: how two processes verify that they belong to one job, before anything else is sent.
//
//   who connects     greeting   version, whether it has a secret, a fresh nonce
//   who listens      challenge  the same, and its proof: HMAC-SHA256(secret, "listener" greeting nonce)
//   who connects     claim      rank, world, job, purpose;
//                               HMAC-SHA256(secret, "connector" greeting nonce claim)
//   who listens      verdict    welcome, or a status and why not
//
// Both prove that they know the secret without revealing it. Nonces are fresh, so a recorded conversation is
// useless, and the two proofs differ, so none can be sent back to its author. Without a secret on both sides
// the proofs are empty and the rest is still checked. Sizes are fixed and small. The connection itself is
// neither encrypted nor authenticated afterwards. A refusal says nothing about the job to those who have not
// proven that they belong to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/identity/secret.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

/// What one process knows about its job.
struct Membership {
  int32_t rank = 0, world_size = 1;
  std::string job;                       ///< must be the same for all; at most kMostJobBytes
  std::shared_ptr<const Secret> secret;  ///< nullptr: none
};
inline constexpr size_t kMostJobBytes = 127;

enum class Purpose : uint32_t {
  kJoin = 1,  ///< to the rendezvous
  kLink = 2,  ///< between two ranks, for data
};

/// The connecting side, until `deadline` or until `interrupt` (a descriptor, -1: none) becomes readable.
/// Returns false if the connection ended or was silent before a verdict, for instance because the other side
/// was busy with strangers: then another try is worthwhile, and `why` has the reason. Throws
///   kPermission       the other side does not know this rank's secret, has none, or did not accept ours
///   kAbiMismatch      another version
///   kInvalidArgument  another job or world size, or a rank that is taken
bool introduce(const Socket& socket, const Membership& self, int32_t to_rank, Purpose purpose,
               double deadline, std::string* why, int interrupt = -1);

struct Claim;

/// The listening side of one connection, non-blocking: received bytes go in, bytes to send come out.
class Greeter {
 public:
  enum class State {
    kTalking,  ///< needs more bytes
    kClaimed,  ///< it belongs to the job and claims rank(): now admit or refuse it
    kRefused,  ///< send what there is to send, then close
  };
  explicit Greeter(const Membership& self) : self_(self) {}

  /// Consumes what it can from the beginning of `in`.
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
