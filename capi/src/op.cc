// The functions hws_op_*.
#include "capi/src/op.h"

#include <cmath>

#include "capi/src/guard.h"

using namespace hawser::capi;
using hawser::Code;
using hawser::fail;

hws_status hws_op_wait(const hws_op* op, double timeout_seconds) {
  return guard(__func__, [&](const Call& call) {
    const Use<Op> use(call, op, Access::kAlways);
    if (std::isnan(timeout_seconds))
      call.invalid("timeout_seconds", "is not a number; give seconds, or a negative number for no limit");
    if (use->save->wait(timeout_seconds)) return;
    fail(Code::kTimeout, "{}: the save of {} has not ended within {} s", call.function(), use->save->path(),
         timeout_seconds);
  });
}

hws_status hws_op_poll(const hws_op* op, int32_t* ended) {
  return guard(__func__, [&](const Call& call) {
    const Use<Op> use(call, op, Access::kAlways);
    call.pointer(ended, "ended");
    *ended = use->save->ended() ? 1 : 0;
  });
}

hws_status hws_op_progress(const hws_op* op, int64_t* done_bytes, int64_t* total_bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Op> use(call, op, Access::kAlways);
    call.optional(done_bytes, "done_bytes");
    call.optional(total_bytes, "total_bytes");
    if (done_bytes != nullptr) *done_bytes = use->save->bytes_written();
    if (total_bytes != nullptr) *total_bytes = use->save->total_bytes();
  });
}

hws_status hws_op_cancel(const hws_op* op) {
  return guard(__func__, [&](const Call& call) { Use<Op>(call, op, Access::kAlways)->save->cancel(); });
}

void hws_op_destroy(hws_op* op) { destroy_handle(HandleType::kOp, op); }
