#include "engine/device/arena.h"

#include <utility>

#include "engine/device/check.h"

namespace hawser::device {

std::shared_ptr<Arena> Arena::create(int64_t bytes) {
  std::shared_ptr<Arena> arena(new Arena(nullptr, Source::kHost));  // created first, because its destructor
                                                                    // frees the memory
  char* const data = bytes > 0 ? map_memory(bytes) : nullptr;
  if (bytes > 0 && data == nullptr)
    fail(Code::kOutOfMemory, "out of memory: {} bytes are needed, {} are available", bytes,
         available_memory());
  arena->take(data, bytes);
  return arena;
}

std::shared_ptr<Arena> Arena::create(std::shared_ptr<Device> device, int64_t bytes) {
  std::shared_ptr<Arena> arena(new Arena(device, Source::kDevice));
  void* data = nullptr;
  if (bytes > 0) check(*device, device->allocate(bytes, &data));
  arena->take(data, bytes);
  return arena;
}

std::shared_ptr<Arena> Arena::create_for_peers(std::shared_ptr<Device> device, int64_t bytes) {
  std::shared_ptr<Arena> arena(new Arena(device, Source::kPeers));
  void* data = nullptr;
  if (bytes > 0 && device->allocate_for_peers(bytes, &data) != 0) {
    std::string without = device->message();
    arena = create(std::move(device), bytes);
    arena->without_peers_ = std::move(without);
    return arena;
  }
  arena->take(data, bytes);
  return arena;
}

std::shared_ptr<Arena> Arena::create_pinned(std::shared_ptr<Device> device, int64_t bytes) {
  std::shared_ptr<Arena> arena(new Arena(device, Source::kPinned));
  void* data = nullptr;
  if (bytes > 0) check(*device, device->allocate_host(bytes, &data));
  arena->take(data, bytes);
  return arena;
}

Arena::~Arena() {
  if (data_ == nullptr) return;
  unpoison(data_, bytes_);
  if (source_ == Source::kHost)
    unmap_memory(data_, bytes_);
  else if (source_ == Source::kDevice)
    device_->release(data_, bytes_);
  else if (source_ == Source::kPeers)
    device_->release_for_peers(data_, bytes_);
  else
    device_->release_host(data_, bytes_);
}

}  // namespace hawser::device
