#include "engine/comm/ledger.h"

namespace hawser::comm {

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kAllReduceI64:
      return "all_reduce_i64";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kSend:
      return "send";
    case Operation::kRecv:
      return "recv";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kCount:
      break;
  }
  return "unknown";
}

const char* state_name(CallState state) {
  switch (state) {
    case CallState::kQueued:
      return "queued";
    case CallState::kRunning:
      return "running";
    case CallState::kFinished:
      return "finished";
    case CallState::kFailed:
      break;
  }
  return "failed";
}

}  // namespace hawser::comm
