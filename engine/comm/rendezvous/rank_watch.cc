#include "engine/comm/rendezvous/rank_watch.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "engine/base/signals_blocked.h"
#include "engine/base/thread_name.h"
#include "engine/base/utf8.h"
#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/store_client.h"

namespace hawser::comm {
namespace {

constexpr size_t kMostFaultBytes = 4096;  // fits into a socket's buffer with the heartbeats
static_assert(sizeof(Code) == sizeof(int32_t));

/// Splits texts, each preceded by its size.
std::vector<std::string> sized_texts(const std::string& all) {
  std::vector<std::string> texts;
  for (size_t at = 0; at + sizeof(uint32_t) <= all.size();) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, all.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    texts.push_back(all.substr(at, bytes));
    at += bytes;
  }
  return texts;
}

}  // namespace

RankWatch::RankWatch(Socket socket, int32_t rank, int32_t world_size, double silence_seconds, Told told)
    : socket_(std::move(socket)),
      rank_(rank),
      world_size_(world_size),
      silence_seconds_(silence_seconds),
      told_(std::move(told)),
      beat_(store_request(StoreOp::kBeat, "", "", 0)),
      bye_(store_request(StoreOp::kBye, "", "", 0)),
      heard_(steady_seconds()) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { main_loop(); });
  } catch (const std::system_error& e) {
    fail(Code::kUnavailable, "cannot make the watching thread of rank {}: {}; raise the limit on threads",
         rank_, e.what());
  }
  name_thread(thread_, "hws-watch", rank_);
}

RankWatch::~RankWatch() {
  say(bye_);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  socket_.shut_down();
  thread_.join();
}

void RankWatch::notify(const Error& error) noexcept {
  char text[kMostFaultBytes + 1];
  error.copy_message(text, sizeof(text));
  notify(error.code(), text);
}

void RankWatch::notify(Code code, std::string_view text) noexcept {
  text = cut_between_characters(text, kMostFaultBytes);
  StoreRequest request;
  request.op = StoreOp::kFault;
  request.value_bytes = static_cast<uint32_t>(sizeof(code) + text.size());
  char message[sizeof(request) + sizeof(code) + kMostFaultBytes];
  std::memcpy(message, &request, sizeof(request));
  std::memcpy(message + sizeof(request), &code, sizeof(code));
  std::memcpy(message + sizeof(request) + sizeof(code), text.data(), text.size());
  say({message, sizeof(request) + request.value_bytes});
}

/// Sends a complete message, or nothing if rank 0 no longer reads; rank 0's silence is then detected.
void RankWatch::say(std::string_view message) noexcept {
  const std::lock_guard lock(mutex_);
  ::send(socket_.fd(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void RankWatch::main_loop() {
  try {
    watch();
  } catch (...) {  // memory ran out
    const Error error = Error::caught(rank_);
    told_(error);
    notify(error);
  }
  const std::lock_guard lock(met_mutex_);
  over_ = true;
  met_changed_.notify_all();
}

std::vector<std::string> RankWatch::meet(const std::string& key, const std::string& text,
                                         std::vector<int32_t> ranks, double timeout_seconds) {
  const MeetHead head{static_cast<uint32_t>(text.size()), static_cast<uint32_t>(ranks.size())};
  std::string value(reinterpret_cast<const char*>(&head), sizeof(head));
  value += text;
  value.append(reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof(int32_t));
  const std::string request = store_request(StoreOp::kMeet, key, value, timeout_seconds);
  {
    const std::lock_guard lock(mutex_);
    if (!write_all(socket_, request.data(), request.size(), steady_seconds() + silence_seconds_))
      fail(Code::kUnavailable, "rank 0 of {} no longer receives from rank {}", world_size_, rank_);
  }
  std::unique_lock lock(met_mutex_);
  met_changed_.wait(lock, [&] { return met_ || over_; });
  if (!met_) fail(Code::kUnavailable, "the job failed while rank {} connected to other ranks", rank_);
  std::vector<std::string> texts = sized_texts(*met_);
  met_.reset();
  texts.resize(ranks.size());
  return texts;
}

void RankWatch::watch() {
  double next_beat = steady_seconds();
  for (;;) {
    const double wake = std::min(next_beat, heard_ + silence_seconds_);
    pollfd entry{socket_.fd(), POLLIN, 0};
    poll(&entry, 1, static_cast<int>(std::clamp(std::ceil((wake - steady_seconds()) * 1e3), 0.0, 1e6)));
    if (!read()) return;  // checked before the silence, because this process itself may have been stopped
    const double now = steady_seconds();
    if (now >= heard_ + silence_seconds_) {
      const Error error(
          Code::kUnavailable,
          fmt::format("rank 0 of {} sent no heartbeat for {} s: stopped, or cut off from rank {}",
                      world_size_, silence_seconds_, rank_));
      told_(error);
      return notify(error);  // reaches rank 0 if its process continues
    }
    if (now < next_beat) continue;
    say(beat_);
    next_beat = now + beat_seconds(silence_seconds_);
  }
}

/// Reads messages. Returns false if no more can arrive.
bool RankWatch::read() {
  char block[4096];
  for (;;) {
    const ssize_t got = recv(socket_.fd(), block, sizeof(block), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) break;
    heard_ = steady_seconds();
    in_.append(block, static_cast<size_t>(got));
    if (!take_answers()) return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
  }
  told_(Error(Code::kUnavailable,
              fmt::format("rank 0 of {} is gone: its process ended or its connection broke", world_size_)));
  return false;
}

/// Processes the complete answers. Returns false after the last one.
bool RankWatch::take_answers() {
  StoreAnswer answer;
  while (in_.size() >= sizeof(answer)) {
    std::memcpy(&answer, in_.data(), sizeof(answer));
    if (answer.value_bytes > kMostAnswerBytes) answer.value_bytes = 0;
    if (in_.size() < sizeof(answer) + answer.value_bytes) return true;
    std::string text = in_.substr(sizeof(answer), answer.value_bytes);
    in_.erase(0, sizeof(answer) + answer.value_bytes);
    if (answer.code == StoreAnswer::kBeat) continue;
    if (answer.code == StoreAnswer::kMet) {
      const std::lock_guard lock(met_mutex_);
      met_ = std::move(text);
      met_changed_.notify_all();
      continue;
    }
    const auto code = static_cast<Code>(answer.code);
    if (code != Code::kCancelled || text != kEndedInPeace) told_(Error(code, text));
    return false;
  }
  return true;
}

}  // namespace hawser::comm
