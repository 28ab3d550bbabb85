#include "tests/comm/nccl/fake_stream.h"

#include <cstdlib>

#include "tests/comm/nccl/fake_nccl.h"

namespace hawser::testing {
namespace {

int poll(void* user, device::Event* event, const char** why) {
  auto& stream = *static_cast<FakeStream*>(user);
  if (stream.fault != nullptr) {
    *why = stream.fault;
    return -1;
  }
  if (event != FakeStream::idle())
    return event == nullptr || __atomic_load_n(reinterpret_cast<bool*>(event), __ATOMIC_SEQ_CST) ? 0 : 1;
  while (!stream.work.empty() && stream.work.front()()) stream.work.pop_front();
  return stream.work.empty() ? 0 : 1;
}

}  // namespace

comm::nccl::StreamUse FakeStream::use() { return {this, this, &poll}; }

void give_to_stream(void* stream, std::function<bool()> work) {
  static_cast<FakeStream*>(stream)->work.push_back(std::move(work));
}

void* take_device_memory(size_t bytes) { return std::malloc(bytes); }
void free_device_memory(void* memory) { std::free(memory); }

}  // namespace hawser::testing
