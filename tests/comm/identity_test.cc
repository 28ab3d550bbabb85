// Tests of secrets and of the handshake, with an honest and with a dishonest side.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "engine/comm/gate.h"
#include "engine/comm/identity/open_module.h"
#include "tests/comm/identity_case.h"

namespace hawser::testing {
namespace identity_test {

using comm::Greeter, comm::Membership, comm::Purpose, comm::Secret, comm::Socket;

/// Answers one connection with a Greeter until it has claimed or refused.
Greeter::State greet(const Socket& socket, Greeter& greeter, std::string* heard = nullptr) {
  std::string in, out;
  Greeter::State state = Greeter::State::kTalking;
  while (state == Greeter::State::kTalking) {
    char byte;
    if (!comm::read_all(socket, &byte, 1, steady_seconds() + 5)) break;
    if (heard != nullptr) *heard += byte;
    in += byte;
    state = greeter.take(in, out);
    if (state == Greeter::State::kClaimed) Greeter::admit(out);
    comm::write_all(socket, out.data(), out.size(), steady_seconds() + 5);
    out.clear();
  }
  return state;
}

struct Pair {
  Socket a, b;
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    a = Socket(ends[0]), b = Socket(ends[1]);
  }
};

/// Returns the outcome of introduce between the two: "welcome", "lost", or the error's name and text.
std::string meet(const Membership& connector, const Membership& listener, int32_t to_rank = 0,
                 Greeter::State* state = nullptr) {
  Pair pair;
  auto other = std::async(std::launch::async, [&] {
    Greeter greeter(listener);
    const auto result = greet(pair.b, greeter);
    pair.b.shut_down();
    return result;
  });
  std::string outcome = "lost", why;
  try {
    if (comm::introduce(pair.a, connector, to_rank, Purpose::kJoin, steady_seconds() + 5, &why)) {
      outcome = "welcome";
    }
  } catch (const Error& error) {
    outcome = std::string(code_name(error.code())) + " " + error.message();
  }
  pair.a.close();
  const auto end = other.get();
  if (state != nullptr) *state = end;
  return outcome;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Identity, WithoutASecretWorldJobAndRanksMustAgree) {
  const Membership zero{0, 3, "job", nullptr};
  EXPECT_EQ(meet({2, 3, "job", nullptr}, zero), "welcome");
  for (const std::string& message :
       {meet({2, 4, "job", nullptr}, zero), meet({2, 3, "config 1", nullptr}, zero)}) {
    EXPECT_TRUE(has(message, "rank 0 does not; start all ranks as one job")) << message;
  }
  EXPECT_TRUE(has(meet({2, 3, "job", nullptr}, zero, 1), "tried to reach rank 1 but reached another"));
}

/// A side that has proven nothing receives no information that helps it to make a better claim: it gets the
/// same text for a wrong job and for a wrong number of ranks, with neither the right job nor the right
/// number.
TEST(Identity, ARefusalTellsStrangersNothingOfTheJob) {
  const Membership zero{0, 64937, "config 77f3", nullptr};
  for (const auto& [world, job] : {std::pair{5, "config 77f3"}, std::pair{64937, "guess"}}) {
    const std::string message = meet({2, world, job, nullptr}, zero);
    EXPECT_TRUE(has(message, fmt::format("the job \"{}\" with {} ranks", job, world))) << message;
    EXPECT_EQ(has(message, "77f3"), job == zero.job) << message;
    EXPECT_EQ(has(message, "64937"), world == zero.world_size) << message;
  }
}

TEST(Identity, WhoKnowsTheSecretIsToldWhatDiffers) {
  SKIP_WITHOUT_SECRETS();
  const auto ours = secret_of("ours");
  const std::string message = meet({2, 4, "config 1", ours}, {0, 3, "job", ours});
  EXPECT_TRUE(has(message, "the job \"config 1\" with 4 ranks, rank 0 to the job \"job\" with 3 ranks"))
      << message;
}

TEST(Identity, WithASecretBothSidesMustKnowIt) {
  SKIP_WITHOUT_SECRETS();
  const auto ours = secret_of("ours"), theirs = secret_of("theirs");
  const Membership zero{0, 2, "job", ours};
  EXPECT_EQ(meet({1, 2, "job", ours}, zero), "welcome");
  Greeter::State state{};
  EXPECT_TRUE(
      has(meet({1, 2, "job", theirs}, zero, 0, &state), "HWS_PERMISSION the process that listens as rank 0"));
  EXPECT_EQ(state, Greeter::State::kTalking) << "the connector said no more";
  EXPECT_TRUE(has(meet({1, 2, "job", nullptr}, zero, 0, &state), "rank 1 has no secret"));
  EXPECT_EQ(state, Greeter::State::kRefused);
  EXPECT_TRUE(has(meet({1, 2, "job", ours}, {0, 2, "job", nullptr}), "rank 1 has a secret"));
}

/// A connector that does not check the listener, and so reaches its own proof.
TEST(Identity, AWrongProofIsRefusedWhateverItClaims) {
  SKIP_WITHOUT_SECRETS();
  const Membership zero{0, 2, "job", secret_of("ours")};
  Pair pair;
  Greeter greeter(zero);
  std::string heard;
  auto good = std::async(std::launch::async, [&] { return greet(pair.b, greeter, &heard); });
  std::string why;
  EXPECT_TRUE(comm::introduce(pair.a, {1, 2, "job", secret_of("ours")}, 0, Purpose::kJoin,
                              steady_seconds() + 5, &why));
  EXPECT_EQ(good.get(), Greeter::State::kClaimed);
  // The same bytes are sent again to the same member, which now has another nonce; then each byte of the
  // claim is changed.
  for (size_t changed = 0; changed <= heard.size(); changed += 7) {
    std::string bytes = heard, out;
    if (changed < heard.size()) bytes[changed] ^= 1;
    Greeter again(zero);
    Greeter::State state = again.take(bytes, out);
    while (state == Greeter::State::kTalking && !bytes.empty()) {
      const size_t before = bytes.size();
      state = again.take(bytes, out);
      if (bytes.size() == before) break;
    }
    EXPECT_NE(state, Greeter::State::kClaimed) << "byte " << changed;
  }
}

TEST(Identity, AListenersProofSentBackToItIsNone) {
  SKIP_WITHOUT_SECRETS();
  const Membership zero{0, 2, "job", secret_of("ours")};
  Greeter first(zero), second(zero);
  std::string greeting(48, '\0'), out;
  const uint64_t mark = 0x316c6c6568737768ull;
  const uint32_t words[2] = {1, 1};
  std::memcpy(greeting.data(), &mark, 8), std::memcpy(greeting.data() + 8, words, 8);
  first.take(greeting, out);
  ASSERT_EQ(out.size(), 80u);
  std::string mirrored = out.substr(0, 48), reply;  // its own nonce as a greeting to itself
  second.take(mirrored, reply);
  std::string claim(16 + 16 + 128, '\0');
  claim += reply.substr(48, 32);
  std::string verdict;
  EXPECT_EQ(first.take(claim, verdict), Greeter::State::kRefused);
  EXPECT_TRUE(has(verdict, "does not know the job's secret")) << verdict;
}

TEST(Identity, AnotherVersionIsToldSo) {
  Pair pair;
  std::string challenge(80, '\0');
  const uint64_t mark = 0x316c6c6568737768ull;
  const uint32_t version = 9;
  std::memcpy(challenge.data(), &mark, 8), std::memcpy(challenge.data() + 8, &version, 4);
  comm::write_all(pair.b, challenge.data(), challenge.size(), steady_seconds() + 5);
  std::string why;
  try {
    comm::introduce(pair.a, {1, 2, "", nullptr}, 0, Purpose::kJoin, steady_seconds() + 5, &why);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kAbiMismatch);
    EXPECT_TRUE(has(error.message(), "version 1 of the handshake, rank 0 version 9")) << error.message();
  }
}

/// This is test case 6 of RFC 4231. The keys of cases 1 to 5 are too short for a Secret.
TEST(Identity, ProofsAreHmacSha256) {
  SKIP_WITHOUT_SECRETS();
  const Secret secret(std::string(131, '\xaa'), HAWSER_MODULE_FOLDER);
  const comm::Proof proof = secret.prove("Test Using Larger Than Block-Size Key - Hash Key First");
  std::string digits;
  for (const uint8_t byte : proof) digits += fmt::format("{:02x}", byte);
  EXPECT_EQ(digits, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() : path_(std::filesystem::temp_directory_path() / fmt::format("hawser-secret-{}", getpid())) {}
  ~SecretFile() override { std::filesystem::remove(path_); }
  std::string refused(const std::string& bytes, mode_t mode) {
    std::filesystem::remove(path_);
    std::ofstream(path_) << bytes;
    chmod(path_.c_str(), mode);
    try {
      comm::read_secret(path_, HAWSER_MODULE_FOLDER);
      return "read";
    } catch (const Error& error) {
      return std::string(code_name(error.code())) + " " + error.message();
    }
  }
  const std::filesystem::path path_;
};

TEST_F(SecretFile, IsReadOnlyIfItIsOne) {
  SKIP_WITHOUT_SECRETS();
  EXPECT_EQ(refused(std::string(32, 'x') + "\n", 0600), "read");
  EXPECT_EQ(refused(std::string(4096, 'x') + "\n", 0440), "read");
  EXPECT_TRUE(has(refused(std::string(31, 'x') + "\n", 0600), "the secret has 31 bytes"));
  EXPECT_TRUE(has(refused(std::string(5000, 'x'), 0600), "HWS_INVALID_ARGUMENT"));
  EXPECT_TRUE(has(refused(std::string(32, 'x'), 0644), "every user may read"));
  for (const mode_t mode : {0620, 0602, 0660, 0622}) {
    EXPECT_TRUE(has(refused(std::string(32, 'x'), mode), "HWS_PERMISSION other users may write")) << mode;
  }
  try {
    comm::read_secret("/dev/zero", HAWSER_MODULE_FOLDER);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.message(), "not a regular file")) << error.message();
  }
  try {
    comm::read_secret("/nowhere/secret", HAWSER_MODULE_FOLDER);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
  }
}

TEST_F(SecretFile, OfAnotherUserIsNone) {
  SKIP_WITHOUT_SECRETS();
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::ofstream(path_) << std::string(32, 'x');
  chmod(path_.c_str(), 0600);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  try {
    comm::read_secret(path_, HAWSER_MODULE_FOLDER);
    ADD_FAILURE() << "its owner can change it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kPermission);
    EXPECT_TRUE(has(error.message(), "belongs to user 65534")) << error.message();
  }
}

TEST_F(SecretFile, AMissingModuleAndOneOfAnotherBuildAreNamed) {
  SKIP_WITHOUT_SECRETS();
  try {
    Secret(std::string(32, 'x'), "/nowhere");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_TRUE(has(error.message(), "/nowhere/libhawser_identity.so")) << error.message();
  }
  try {
    Secret(std::string(32, 'x'), std::string(HAWSER_MODULE_FOLDER) + "/../tests/other_build");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kAbiMismatch);
    EXPECT_TRUE(has(error.message(), "0.0.0 some other compiler")) << error.message();
  }
}

}  // namespace identity_test
}  // namespace hawser::testing
