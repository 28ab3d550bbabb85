// How a GPU reaches those of other ranks: by NCCL (engine/comm/nccl/nccl_link.cc) or, in the emulator's
// build, by a NCCL between threads.
#pragma once

#include "engine/device/peer_link.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

/// 0 where peer links can be made; else a status, and writes up to error_bytes of text: what is missing.
Status why_no_peers(char* error, int64_t error_bytes);

/// A link over `stream`, which outlives it. Null, with the reason in `failure`, where that cannot be had.
PeerLink* open_peer_link(const kernels::cuda::CudaStream& stream, const PeerLinkRequest& request,
                         kernels::cuda::StickyError* failure);

}  // namespace hawser::device
