#include "tests/comm/worlds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/comm/host/host_transport.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Queues between all pairs of ranks, and the reason why they are broken.
struct Mailboxes {
  Mailboxes(int32_t world, bool wait_for_receiver)
      : ranks(world),
        synchronous(wait_for_receiver),
        boxes(static_cast<size_t>(world * world)),
        changed(std::make_unique<std::condition_variable[]>(static_cast<size_t>(world))) {}
  std::deque<std::vector<char>>& box(int32_t from, int32_t to) {
    return boxes[static_cast<size_t>(from * ranks + to)];
  }
  int32_t ranks;
  bool synchronous;
  std::mutex mutex;
  std::vector<std::deque<std::vector<char>>> boxes;
  std::unique_ptr<std::condition_variable[]> changed;  ///< indexed by the waiting rank
  int32_t broken = 0;
  std::string why;
  std::atomic<int64_t>* sent = nullptr;  ///< counts messages
};

struct MailUser {
  std::shared_ptr<Mailboxes> mail;
  int32_t rank;
  std::string message;

  template <class Ready>
  int32_t wait(std::unique_lock<std::mutex>& lock, double seconds, const Ready& ready) {
    message.clear();
    const bool in_time =
        mail->changed[rank].wait_until(lock, Clock::now() + std::chrono::duration<double>(seconds),
                                       [&] { return mail->broken != 0 || ready(); });
    if (mail->broken == 0) return in_time ? 0 : static_cast<int32_t>(Code::kTimeout);
    message = mail->why;
    return mail->broken;
  }
  int32_t send(int32_t to, const void* data, int64_t bytes, double seconds) {
    std::unique_lock lock(mail->mutex);
    auto& box = mail->box(rank, to);
    if (mail->sent) ++*mail->sent;
    const char* from = static_cast<const char*>(data);
    box.emplace_back(from, from + bytes);
    mail->changed[to].notify_all();
    const bool wait_here = mail->synchronous && bytes > comm::kEagerBytes;
    return wait(lock, seconds, [&] { return !wait_here || box.empty(); });
  }
  int32_t recv(int32_t from, void* data, int64_t bytes, double seconds) {
    std::unique_lock lock(mail->mutex);
    auto& box = mail->box(from, rank);
    const int32_t status = wait(lock, seconds, [&] { return !box.empty(); });
    if (status != 0) return status;
    if (static_cast<int64_t>(box.front().size()) != bytes) {
      message = "a message of the wrong size";
      return static_cast<int32_t>(Code::kInternal);
    }
    std::memcpy(data, box.front().data(), static_cast<size_t>(bytes));
    box.pop_front();
    mail->changed[from].notify_all();
    return 0;
  }
};

MailUser& self(void* user) { return *static_cast<MailUser*>(user); }

comm::HostTransport mail_transport(const std::shared_ptr<Mailboxes>& mail, int32_t rank) {
  comm::HostTransport t;
  t.user = new MailUser{mail, rank, ""};
  t.send = [](void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
    return self(user).send(to, data, bytes, seconds);
  };
  t.recv = [](void* user, int32_t from, void* data, int64_t bytes, double seconds) {
    return self(user).recv(from, data, bytes, seconds);
  };
  t.abort = [](void* user, int32_t code, const char* message) {
    Mailboxes& mail = *self(user).mail;
    const std::lock_guard lock(mail.mutex);
    if (mail.broken == 0) mail.broken = code, mail.why = message;
    for (int32_t r = 0; r < mail.ranks; ++r) mail.changed[r].notify_all();
  };
  t.message = [](void* user) { return self(user).message.c_str(); };
  t.look = [](void* user) {
    const std::lock_guard lock(self(user).mail->mutex);
    self(user).message = self(user).mail->why;
    return self(user).mail->broken;
  };
  t.destroy = [](void* user) { delete static_cast<MailUser*>(user); };
  return t;
}

std::vector<std::shared_ptr<comm::Comm>> mail_world(int32_t ranks, bool synchronous,
                                                    std::atomic<int64_t>* sent = nullptr) {
  const auto mail = std::make_shared<Mailboxes>(ranks, synchronous);
  mail->sent = sent;
  std::vector<std::shared_ptr<comm::Comm>> world;
  for (int32_t r = 0; r < ranks; ++r) world.push_back(comm::make_host(mail_transport(mail, r), r, ranks));
  return world;
}

}  // namespace

std::vector<std::shared_ptr<comm::Comm>> local_world(int32_t ranks) { return {comm::make_local(ranks)}; }
std::vector<std::shared_ptr<comm::Comm>> memory_world(int32_t ranks) { return mail_world(ranks, false); }
std::vector<std::shared_ptr<comm::Comm>> synchronous_world(int32_t ranks) { return mail_world(ranks, true); }
std::vector<std::shared_ptr<comm::Comm>> counted_world(int32_t ranks, std::atomic<int64_t>& sent) {
  return mail_world(ranks, false, &sent);
}

std::vector<std::exception_ptr> run_world(const std::vector<std::shared_ptr<comm::Comm>>& world,
                                          const RankFn& fn, const comm::CommOptions& options) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(world[0]->world_size()));
  std::vector<std::thread> threads;
  for (const auto& comm : world) {
    for (const int32_t rank : comm->local_ranks()) {
      threads.emplace_back([&, rank] {
        try {
          const auto end = comm->connect(rank, options);
          fn(*end);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_world(const std::vector<std::shared_ptr<comm::Comm>>& world, const RankFn& fn) {
  const auto errors = run_world(world, fn, test_comm_options());
  for (size_t r = 0; r < errors.size(); ++r) {
    if (errors[r] != nullptr) ADD_FAILURE() << "rank " << r << ": " << caught(errors[r]).message;
  }
}

Caught caught(const std::exception_ptr& error) {
  if (error == nullptr) return {};
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {static_cast<int32_t>(e.code()), e.message()};
  } catch (const std::exception& e) {
    return {-1, e.what()};
  }
}

}  // namespace hawser::testing
