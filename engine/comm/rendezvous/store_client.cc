#include "engine/comm/rendezvous/store_client.h"

#include <cstring>

#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr double kAnswerSeconds = 30;  ///< for the server to answer what needs no waiting

}  // namespace

StoreClient::StoreClient(const HostPort& address, int32_t rank, int32_t world_size, double timeout_seconds)
    : address_(address), rank_(rank), world_size_(world_size) {
  std::string why;
  socket_ = connect_until(address, steady_seconds() + timeout_seconds, &why);
  if (!socket_.open()) {
    fail(Code::kTimeout, "rank 0 of {} did not arrive within {} s: rank {} met {} at {}", world_size,
         timeout_seconds, rank, why, address.text());
  }
}

void StoreClient::say_hello() {
  const Hello hello{rank_, world_size_};
  ask(StoreOp::kHello, "", {reinterpret_cast<const char*>(&hello), sizeof(hello)}, 0);
}

void StoreClient::wait_for_all(double timeout_seconds) {
  try {
    ask(StoreOp::kArrived, "", "", timeout_seconds);
  } catch (const Error& error) {
    if (error.code() != Code::kTimeout) throw;
    fail(Code::kTimeout, "{} did not arrive within {} s", error.message(), timeout_seconds);
  }
}

void StoreClient::set(const std::string& key, std::string_view value) { ask(StoreOp::kSet, key, value, 0); }

std::string StoreClient::set_first(const std::string& key, std::string_view value) {
  return ask(StoreOp::kSetFirst, key, value, 0);
}

std::string StoreClient::get(const std::string& key, double timeout_seconds) {
  return ask(StoreOp::kGet, key, "", timeout_seconds);
}

int64_t StoreClient::add(const std::string& key, int64_t more) {
  const std::string total = ask(StoreOp::kAdd, key, {reinterpret_cast<const char*>(&more), sizeof(more)}, 0);
  if (total.size() != sizeof(more)) fail(Code::kInternal, "the rendezvous store answered add with no number");
  std::memcpy(&more, total.data(), sizeof(more));
  return more;
}

void StoreClient::bye() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    send(StoreOp::kBye, "", "", 0, steady_seconds() + 1);
  } catch (const Error&) {  // the server is gone already
  }
}

void StoreClient::send(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds,
                       double deadline) {
  if (key.size() > kMostKeyBytes || value.size() > kMostValueBytes) {
    fail(Code::kInvalidArgument,
         "the rendezvous store takes keys of {} and values of {} bytes; {} and {} are too long",
         kMostKeyBytes, kMostValueBytes, key.size(), value.size());
  }
  StoreRequest request;
  request.op = op;
  request.key_bytes = static_cast<uint32_t>(key.size());
  request.value_bytes = static_cast<uint32_t>(value.size());
  request.timeout_seconds = timeout_seconds;
  std::string message(reinterpret_cast<const char*>(&request), sizeof(request));
  message += key;
  message += value;
  if (!write_all(socket_, message.data(), message.size(), deadline)) {
    fail(Code::kUnavailable, "rank 0 of {} is gone: the rendezvous at {} takes nothing from rank {} any more",
         world_size_, address_.text(), rank_);
  }
}

std::string StoreClient::ask(StoreOp op, std::string_view key, std::string_view value,
                             double timeout_seconds) {
  const std::lock_guard lock(mutex_);
  const double deadline = steady_seconds() + timeout_seconds + kAnswerSeconds;
  send(op, key, value, timeout_seconds, deadline);
  StoreAnswer answer;
  std::string text;
  bool whole = read_all(socket_, &answer, sizeof(answer), deadline);
  if (whole && answer.value_bytes <= kMostValueBytes) {
    text.resize(answer.value_bytes);
    whole = read_all(socket_, text.data(), text.size(), deadline);
  }
  if (!whole) {
    fail(Code::kUnavailable, "rank 0 of {} is gone: the rendezvous at {} does not answer rank {} any more",
         world_size_, address_.text(), rank_);
  }
  if (answer.code != 0) throw Error(static_cast<Code>(answer.code), text);
  return text;
}

}  // namespace hawser::comm
