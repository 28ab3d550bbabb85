#include "engine/comm/gloo/module/mesh.h"

#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"

namespace hawser::comm {
namespace {

constexpr auto kNever = std::chrono::hours(24 * 365);
constexpr auto kTimeoutStatus = static_cast<int32_t>(Code::kTimeout);

/// Gloo's store in front of the functions of the request.
class RequestStore final : public gloo::rendezvous::Store {
 public:
  explicit RequestStore(const GlooRequest& request) : request_(request) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    const std::string name = "gloo/" + key;
    if (request_.set(request_.store, name.c_str(), data.data(), static_cast<int64_t>(data.size())) != 0) {
      throw std::runtime_error("the rendezvous took no address");
    }
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> data(static_cast<size_t>(kMostGlooAddressBytes));
    int64_t bytes = 0;
    const std::string name = "gloo/" + key;
    const int32_t status =
        request_.get(request_.store, name.c_str(), data.data(), static_cast<int64_t>(data.size()), &bytes);
    if (status != 0) throw std::runtime_error("the rendezvous has no address of rank " + key);
    data.resize(static_cast<size_t>(bytes));
    return data;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  const GlooRequest& request_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(seconds, 0.001, 1e9) * 1e3));
}

}  // namespace

Mesh::Mesh(const GlooRequest& request)
    : context_(std::make_shared<gloo::rendezvous::Context>(request.rank, request.world_size)),
      timeout_seconds_(request.timeout_seconds),
      outboxes_(static_cast<size_t>(request.world_size)),
      inbox_bytes_(static_cast<size_t>(kEagerBytes)) {
  gloo::transport::tcp::attr attr;
  attr.hostname = request.host;
  attr.iface = request.interface;
  const SignalsBlocked blocked;  // for Gloo's threads, too
  auto device = gloo::transport::tcp::CreateDevice(attr);
  context_->setTimeout(milliseconds(request.timeout_seconds));
  RequestStore store(request);
  context_->connectFullMesh(store, device);
  inbox_ = over(inbox_bytes_.data(), kEagerBytes);
  for (Outbox& box : outboxes_) {
    box.bytes.resize(kRing * kEagerBytes);
    for (size_t i = 0; i < kRing; ++i) box.buffers[i] = over(box.bytes.data() + i * kEagerBytes, kEagerBytes);
  }
  timer_ = std::thread([this] { timer_loop(); });
  pthread_setname_np(timer_.native_handle(), "hws-gloo-timer");
}

/// The last small messages may not have left yet; peers that still want them get them.
Mesh::~Mesh() {
  const auto until = std::chrono::steady_clock::now() + milliseconds(timeout_seconds_);
  try {
    for (Outbox& box : outboxes_) {
      for (size_t i = 0; i < kRing; ++i) {
        const std::chrono::duration<double> left = until - std::chrono::steady_clock::now();
        if (box.pending[i] && !gave_up_ && wait_send(*box.buffers[i], left.count()) != 0) gave_up_ = true;
      }
    }
  } catch (const std::exception&) {  // that peer is gone
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  timer_.join();
}

int32_t Mesh::send(int32_t to, const void* data, int64_t bytes, double seconds) {
  Outbox& box = outboxes_[static_cast<size_t>(to)];
  if (bytes <= kEagerBytes) return send_small(box, to, data, bytes, seconds);
  const std::unique_ptr<Buffer> buffer = over(data, bytes);
  buffer->send(to, box.sent++);
  return wait_send(*buffer, seconds);
}

int32_t Mesh::recv(int32_t from, void* data, int64_t bytes, double seconds) {
  Outbox& box = outboxes_[static_cast<size_t>(from)];
  if (bytes > kEagerBytes || gave_up_) {
    const std::unique_ptr<Buffer> buffer = over(data, bytes);
    buffer->recv(from, box.received++);
    return wait_recv(*buffer, seconds);
  }
  inbox_->recv(from, box.received++, 0, static_cast<size_t>(bytes));
  const int32_t status = wait_recv(*inbox_, seconds);
  if (status == 0) std::memcpy(data, inbox_bytes_.data(), static_cast<size_t>(bytes));
  return status;
}

int32_t Mesh::exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                       double seconds) {
  const auto until = std::chrono::steady_clock::now() + milliseconds(seconds);
  Outbox& box = outboxes_[static_cast<size_t>(peer)];
  const std::unique_ptr<Buffer> incoming = over(in, in_bytes), outgoing = over(out, out_bytes);
  incoming->recv(peer, box.received++);
  outgoing->send(peer, box.sent++);
  const int32_t status = wait_send(*outgoing, seconds);
  if (status != 0) return status;
  return wait_recv(*incoming,
                   std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count());
}

void Mesh::abort(int32_t code) {
  const std::lock_guard lock(mutex_);
  if (aborted_ == 0) aborted_ = code;
  if (waiting_ == nullptr) return;
  waiting_->abortWaitRecv();
  waiting_->abortWaitSend();
}

int32_t Mesh::send_small(Outbox& box, int32_t to, const void* data, int64_t bytes, double seconds) {
  const size_t i = box.next;
  if (box.pending[i]) {
    const int32_t status = wait_send(*box.buffers[i], seconds);
    if (status != 0) return status;
  }
  box.next = (i + 1) % kRing;
  box.pending[i] = true;
  std::memcpy(box.bytes.data() + i * kEagerBytes, data, static_cast<size_t>(bytes));
  box.buffers[i]->send(to, box.sent++, 0, static_cast<size_t>(bytes));
  return 0;
}

int32_t Mesh::wait_send(Buffer& buffer, double seconds) {
  return wait_for(buffer, seconds, [&] { return buffer.waitSend(kNever); });
}

int32_t Mesh::wait_recv(Buffer& buffer, double seconds) {
  return wait_for(buffer, seconds, [&] { return buffer.waitRecv(kNever); });
}

template <class Wait>
int32_t Mesh::wait_for(Buffer& buffer, double seconds, const Wait& wait) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_ != 0) return aborted_;
    timed_out_ = false;
    deadline_ = std::chrono::steady_clock::now() + milliseconds(seconds);
    waiting_ = &buffer;
    changed_.notify_all();
  }
  const struct Done {
    Mesh& mesh;
    ~Done() {
      const std::lock_guard lock(mesh.mutex_);
      mesh.waiting_ = nullptr;
    }
  } done{*this};
  if (wait()) return 0;
  const std::lock_guard lock(mutex_);
  gave_up_ = true;
  return aborted_ != 0 ? aborted_ : kTimeoutStatus;
}

std::unique_ptr<Mesh::Buffer> Mesh::over(const void* data, int64_t bytes) const {
  return context_->createUnboundBuffer(const_cast<void*>(data), static_cast<size_t>(bytes));
}

void Mesh::timer_loop() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (waiting_ == nullptr || timed_out_) {
      changed_.wait(lock);
      continue;
    }
    if (std::chrono::steady_clock::now() < deadline_) {
      changed_.wait_until(lock, deadline_);
      continue;
    }
    timed_out_ = true;
    waiting_->abortWaitRecv();
    waiting_->abortWaitSend();
  }
}

}  // namespace hawser::comm
