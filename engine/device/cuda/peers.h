// Links to the GPUs of other ranks: by NCCL (engine/comm/nccl/nccl_link.cc) or, in the emulator's build, by
// its NCCL between threads.
#pragma once

#include "engine/device/peer_link.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

/// Returns 0 if peer links are available; otherwise returns a status and writes up to error_bytes of text
/// that names what is missing.
Status why_no_peers(char* error, int64_t error_bytes);

/// Allocates memory of the current GPU that links can register. On failure returns a status and writes the
/// reason. The emulated build's memory is the emulated runtime's.
Status allocate_peer_memory(int64_t bytes, void** out, char* error, int64_t error_bytes);
void release_peer_memory(void* memory);

/// Opens a link over `stream`, which must outlive it. On failure returns null and stores the reason in
/// `failure`.
PeerLink* open_peer_link(const kernels::cuda::CudaStream& stream, const PeerLinkRequest& request,
                         kernels::cuda::StickyError* failure);

}  // namespace hawser::device
