// The functions hws_buffer_*.
#include "capi/src/buffer.h"

#include "capi/src/guard.h"

using namespace hawser::capi;

const void* hws_buffer_data(const hws_buffer* buffer) {
  const void* data = nullptr;
  guard(__func__, [&](const Call& call) { data = Use<Buffer>(call, buffer, Access::kShared)->data(); });
  return data;
}

size_t hws_buffer_size(const hws_buffer* buffer) {
  size_t size = 0;
  guard(__func__, [&](const Call& call) { size = Use<Buffer>(call, buffer, Access::kShared)->size(); });
  return size;
}

void hws_buffer_destroy(hws_buffer* buffer) { destroy_handle(HandleType::kBuffer, buffer); }
