#include "engine/comm/identity/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace hawser::comm {

struct Claim {
  int32_t rank = 0, to_rank = 0, world_size = 0;
  Purpose purpose = Purpose::kJoin;
  char build[16] = {};
  char job[kMostJobBytes + 1] = {};
};

namespace {

constexpr uint64_t kMark = 0x316c6c6568737768ull;  // "hwshell1"
constexpr uint32_t kVersion = 1;
constexpr size_t kMostVerdictBytes = 1024;

using Nonce = std::array<uint8_t, 32>;

struct Greeting {
  uint64_t mark = kMark;
  uint32_t version = kVersion, secured = 0;
  Nonce nonce{};
};
struct Challenge {
  uint64_t mark = kMark;
  uint32_t version = kVersion, secured = 0;
  Nonce nonce{};
  Proof proof{};
};
struct ProvenClaim {
  Claim claim;
  Proof proof{};
};
struct VerdictHead {
  int32_t code = 0;
  uint32_t text_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Greeting> && std::is_trivially_copyable_v<Challenge> &&
              std::is_trivially_copyable_v<ProvenClaim> && std::is_trivially_copyable_v<VerdictHead>);

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <class T>
T read_as(const std::string& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// Moves a complete T from the beginning of `in` to *out; returns false if `in` has none.
template <class T>
bool cut(std::string& in, std::string* out) {
  if (in.size() < sizeof(T)) return false;
  *out = in.substr(0, sizeof(T));
  in.erase(0, sizeof(T));
  return true;
}

Nonce fresh_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    fail(Code::kUnavailable, "the system gives no random bytes");
  }
  return nonce;
}

template <size_t N>
std::string text_in(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}
template <size_t N>
void put_text(char (&field)[N], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

Proof prove(const Membership& self, std::string_view who, std::string_view transcript,
            std::string_view claim) {
  return self.secret == nullptr ? Proof{}
                                : self.secret->prove(fmt::format("{} {}{}", who, transcript, claim));
}
bool proves(const Membership& self, std::string_view who, std::string_view transcript, std::string_view claim,
            const Proof& proof) {
  return self.secret == nullptr || self.secret->proves(fmt::format("{} {}{}", who, transcript, claim), proof);
}
constexpr std::string_view kListener = "listener", kConnector = "connector";

Claim claim_of(const Membership& self, int32_t to_rank, Purpose purpose) {
  Claim claim;
  claim.rank = self.rank;
  claim.to_rank = to_rank;
  claim.world_size = self.world_size;
  claim.purpose = purpose;
  put_text(claim.build, HAWSER_VERSION);
  put_text(claim.job, self.job);
  return claim;
}

/// Throws if the challenge shows that the other side does not belong to this job.
void check_challenge(const Challenge& challenge, const Membership& self, int32_t to_rank,
                     std::string_view transcript) {
  if (challenge.mark != kMark) {
    fail(Code::kPermission,
         "rank {} connected to the address of rank {}, but another program answered; check the address and "
         "port",
         self.rank, to_rank);
  }
  if (challenge.version != kVersion) {
    fail(Code::kAbiMismatch,
         "rank {} uses version {} of the handshake, rank {} version {}; all ranks must run the same build",
         self.rank, kVersion, to_rank, challenge.version);
  }
  const bool secured = challenge.secured != 0;
  if (secured != (self.secret != nullptr)) {
    fail(Code::kPermission,
         "rank {} has {} secret, but rank {} has {}; give all ranks of the job the same one", self.rank,
         self.secret != nullptr ? "a" : "no", to_rank, secured ? "one" : "none");
  }
  if (!proves(self, kListener, transcript, "", challenge.proof)) {
    fail(Code::kPermission,
         "the process that listens as rank {} does not know the secret of rank {}: it belongs to another "
         "job, or one of the two has a wrong secret",
         to_rank, self.rank);
  }
}

}  // namespace

bool introduce(const Socket& socket, const Membership& self, int32_t to_rank, Purpose purpose,
               double deadline, std::string* why, int interrupt) {
  Greeting greeting;
  greeting.secured = self.secret != nullptr ? 1 : 0;
  greeting.nonce = fresh_nonce();
  Challenge challenge;
  *why = "the connection was closed before an answer";
  if (!write_all(socket, &greeting, sizeof(greeting), deadline, interrupt)) return false;
  if (!read_all(socket, &challenge, sizeof(challenge), deadline, interrupt)) return false;
  const std::string transcript = std::string(bytes_of(greeting)) + std::string(bytes_of(challenge.nonce));
  check_challenge(challenge, self, to_rank, transcript);
  ProvenClaim proven{claim_of(self, to_rank, purpose), {}};
  proven.proof = prove(self, kConnector, transcript, bytes_of(proven.claim));
  VerdictHead verdict;
  if (!write_all(socket, &proven, sizeof(proven), deadline, interrupt)) return false;
  if (!read_all(socket, &verdict, sizeof(verdict), deadline, interrupt)) return false;
  if (verdict.code == 0) return true;
  std::string text(std::min<size_t>(verdict.text_bytes, kMostVerdictBytes), '\0');
  if (!read_all(socket, text.data(), text.size(), deadline, interrupt)) return false;
  throw Error(static_cast<Code>(verdict.code), text);
}

Greeter::State Greeter::take(std::string& in, std::string& out) {
  std::string bytes;
  if (transcript_.empty()) {
    if (in.size() >= sizeof(kMark) && std::memcmp(in.data(), &kMark, sizeof(kMark)) != 0) {
      return State::kRefused;  // a stranger receives no answer
    }
    if (!cut<Greeting>(in, &bytes)) return State::kTalking;
    if (const State state = challenge(bytes, out); state != State::kTalking) return state;
  }
  return cut<ProvenClaim>(in, &bytes) ? judge(bytes, out) : State::kTalking;
}

/// The challenge lets a connecting side that does not belong to this job find out why.
Greeter::State Greeter::challenge(const std::string& bytes, std::string& out) {
  const auto greeting = read_as<Greeting>(bytes);
  Challenge challenge;
  challenge.secured = self_.secret != nullptr ? 1 : 0;
  challenge.nonce = fresh_nonce();
  transcript_ = bytes + std::string(bytes_of(challenge.nonce));
  const bool alike = greeting.version == kVersion && greeting.secured == challenge.secured;
  if (alike) challenge.proof = prove(self_, kListener, transcript_, "");
  out += bytes_of(challenge);
  return alike ? State::kTalking : State::kRefused;
}

Greeter::State Greeter::judge(const std::string& bytes, std::string& out) {
  const auto [claim, proof] = read_as<ProvenClaim>(bytes);
  if (!proves(self_, kConnector, transcript_, bytes_of(claim), proof)) {
    return refuse(out, Code::kPermission,
                  fmt::format("rank {} is rejected: it does not know the job's secret", claim.rank));
  }
  if (text_in(claim.build) != HAWSER_VERSION) {
    return refuse(
        out, Code::kAbiMismatch,
        fmt::format("rank {} runs hawser {}, rank {} another version; all ranks must run the same build",
                    claim.rank, text_in(claim.build), claim.to_rank));
  }
  if (text_in(claim.job) != self_.job || claim.world_size != self_.world_size) {
    return refuse(out, Code::kInvalidArgument, another_job(claim));
  }
  if (claim.rank < 0 || claim.rank >= self_.world_size || claim.to_rank != self_.rank) {
    return refuse(
        out, Code::kInvalidArgument,
        fmt::format("rank {} tried to reach rank {} but reached another rank: two addresses are mixed up",
                    claim.rank, claim.to_rank));
  }
  rank_ = claim.rank;
  purpose_ = claim.purpose;
  return State::kClaimed;
}

/// Returns details of the job, which are only sent to a side that has proven that it belongs to it.
std::string Greeter::another_job(const Claim& claim) const {
  const std::string theirs = fmt::format("rank {} belongs to the job \"{}\" with {} ranks", claim.rank,
                                         text_in(claim.job), claim.world_size);
  const std::string ours = self_.secret == nullptr ? fmt::format("rank {} does not", claim.to_rank)
                                                   : fmt::format("rank {} to the job \"{}\" with {} ranks",
                                                                 self_.rank, self_.job, self_.world_size);
  return fmt::format("{}, {}; start all ranks as one job, with the same config and number of ranks", theirs,
                     ours);
}

void Greeter::admit(std::string& out) { out += bytes_of(VerdictHead{}); }

Greeter::State Greeter::refuse(std::string& out, Code code, const std::string& why) {
  const std::string text = why.substr(0, kMostVerdictBytes);
  out += bytes_of(VerdictHead{static_cast<int32_t>(code), static_cast<uint32_t>(text.size())});
  out += text;
  return State::kRefused;
}

}  // namespace hawser::comm
