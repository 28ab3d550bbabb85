#include "engine/comm/rendezvous/store_client.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr int kPauseMilliseconds = 50;

}  // namespace

StoreClient::StoreClient(const HostPort& address, const Membership& self, double timeout_seconds,
                         double silence_seconds)
    : address_(address),
      rank_(self.rank),
      world_size_(self.world_size),
      silence_seconds_(std::max(silence_seconds, 2 * kLongestBeat)) {
  const double deadline = steady_seconds() + timeout_seconds;
  for (std::string why;;) {
    socket_ = connect_until(address, deadline, &why);
    if (socket_.open() && introduce(socket_, self, 0, Purpose::kJoin, deadline, &why)) return;
    if (steady_seconds() + kPauseMilliseconds * 1e-3 >= deadline) {
      fail(Code::kTimeout,
           "rank 0 of {} did not answer within {} s (rank {}: {} at {}); start exactly one process for each "
           "rank",
           world_size_, timeout_seconds, rank_, why, address.text());
    }
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

double StoreClient::wait_for_all(double timeout_seconds, double of_seconds) {
  try {
    return std::stod(ask(StoreOp::kArrived, "", "", timeout_seconds));
  } catch (const Error& error) {
    if (error.code() != Code::kTimeout) throw;
    fail(Code::kTimeout, "{} did not connect within {} s", error.message(), of_seconds);
  }
}

void StoreClient::set(const std::string& key, std::string_view value) { ask(StoreOp::kSet, key, value, 0); }

std::string StoreClient::get(const std::string& key, double timeout_seconds) {
  return ask(StoreOp::kGet, key, "", timeout_seconds);
}

Socket StoreClient::watch() && {
  send(StoreOp::kWatch, "", "", 0);
  return std::move(socket_);
}

void StoreClient::send(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds) {
  if (key.size() > kMostKeyBytes || value.size() > kMostValueBytes) {
    fail(Code::kInvalidArgument,
         "the rendezvous store takes keys of at most {} and values of at most {} bytes, not {} and {}",
         kMostKeyBytes, kMostValueBytes, key.size(), value.size());
  }
  const std::string message = store_request(op, key, value, timeout_seconds);
  const double deadline = steady_seconds() + silence_seconds_;
  if (!write_all(socket_, message.data(), message.size(), deadline))
    fail_without_zero(steady_seconds() >= deadline);
}

/// The server answers when it can and sends heartbeats until then, so only its silence is a failure here.
std::string StoreClient::ask(StoreOp op, std::string_view key, std::string_view value,
                             double timeout_seconds) {
  send(op, key, value, timeout_seconds);
  int32_t code = StoreAnswer::kBeat;
  std::string text;
  while (code == StoreAnswer::kBeat) text = read_text(&code);
  if (code != 0) throw Error(static_cast<Code>(code), text);
  return text;
}

std::string StoreClient::read_text(int32_t* code) {
  const double deadline = steady_seconds() + silence_seconds_;
  StoreAnswer answer;
  std::string text;
  bool whole = read_all(socket_, &answer, sizeof(answer), deadline);
  if (whole && answer.value_bytes <= kMostAnswerBytes) {
    text.resize(answer.value_bytes);
    whole = read_all(socket_, text.data(), text.size(), deadline);
  }
  if (!whole) fail_without_zero(steady_seconds() >= deadline);
  *code = answer.code;
  return text;
}

void StoreClient::fail_without_zero(bool silent) const {
  if (silent) {
    fail(Code::kUnavailable, "rank 0 of {} sent no heartbeat for {} s: stopped, or cut off from rank {}",
         world_size_, silence_seconds_, rank_);
  }
  fail(Code::kUnavailable, "rank 0 of {} is gone: the rendezvous at {} no longer answers rank {}",
       world_size_, address_.text(), rank_);
}

std::string store_request(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds) {
  StoreRequest request;
  request.op = op;
  request.key_bytes = static_cast<uint32_t>(key.size());
  request.value_bytes = static_cast<uint32_t>(value.size());
  request.timeout_seconds = timeout_seconds;
  std::string message(reinterpret_cast<const char*>(&request), sizeof(request));
  message += key;
  message += value;
  return message;
}

}  // namespace hawser::comm
