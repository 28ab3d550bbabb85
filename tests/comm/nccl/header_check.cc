// Header check: compares the declarations of nccl_library.h with NVIDIA's own header. It is compiled if that
// header is available, and never run.
#include <nccl.h>

#include "engine/comm/nccl/nccl_library.h"

namespace hawser::comm::nccl {

static_assert(kSuccess == ncclSuccess && kInvalidUsage == ncclInvalidUsage && kInProgress == ncclInProgress);
static_assert(kUint8 == ncclUint8);
static_assert(NCCL_VERSION_CODE >= kFirstVersion && NCCL_VERSION_CODE < kEndOfVersions);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(Config) == offsetof(Config, traffic_class) + sizeof(int));  // no padding may follow

/// True if NCCL has trafficClass (from 2.25) at this offset, or does not have it.
template <class Theirs>
constexpr bool traffic_class_is_at(size_t ours) {
  if constexpr (requires { &Theirs::trafficClass; }) return offsetof(Theirs, trafficClass) == ours;
  return true;
}
static_assert(traffic_class_is_at<ncclConfig_t>(offsetof(Config, traffic_class)));
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

// Signatures: our members have the same parameters and results as the functions, under other type names.
ncclResult_t (*const send)(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = &ncclSend;
ncclResult_t (*const recv)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = &ncclRecv;
ncclResult_t (*const gather)(const void*, void*, size_t, ncclDataType_t, ncclComm_t,
                             cudaStream_t) = &ncclAllGather;
ncclResult_t (*const init)(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) = &ncclCommInitRankConfig;
ncclResult_t (*const allocate)(void**, size_t) = &ncclMemAlloc;
ncclResult_t (*const release)(void*) = &ncclMemFree;
ncclResult_t (*const enroll)(ncclComm_t, void*, size_t, void**) = &ncclCommRegister;
ncclResult_t (*const remove)(ncclComm_t, void*) = &ncclCommDeregister;
ncclResult_t (*const async)(ncclComm_t, ncclResult_t*) = &ncclCommGetAsyncError;

}  // namespace hawser::comm::nccl
