// Descriptors: counts the file descriptors that a rank over TCP needs before it connects, because a rank that
// runs out of them halfway would look like one that did not arrive.
#pragma once

#include <cstdint>

namespace hawser::comm {

/// Returns the descriptors needed for the rendezvous and the comparison of plans, with some for the files of
/// a run. Rank 0 needs one for each other rank.
int64_t descriptors_of(int32_t rank, int32_t world_size);

/// Returns the descriptors needed for `peers` more connections, in all lanes, while they are created, with
/// some for the files of a run.
int64_t group_descriptors(int64_t peers);

/// Throws kFailedPrecondition, with the number needed, if this process may not open `more` descriptors. It
/// does not raise the limit, because that is up to the host program.
void check_descriptors(int32_t rank, int32_t world_size, int64_t more);

}  // namespace hawser::comm
