// How a GPU communicates with those of other ranks: by NCCL (engine/comm/nccl/nccl_link.cc) or, in the
// emulator's build, by a NCCL between threads.
#pragma once

#include "engine/device/peer_link.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

/// Returns 0 if peer links are available; else a status, and writes up to error_bytes of text about what is
/// missing.
Status why_no_peers(char* error, int64_t error_bytes);

/// Opens a link over `stream`, which must outlive it. Returns null, with the reason in `failure`, if that
/// fails.
PeerLink* open_peer_link(const kernels::cuda::CudaStream& stream, const PeerLinkRequest& request,
                         kernels::cuda::StickyError* failure);

}  // namespace hawser::device
