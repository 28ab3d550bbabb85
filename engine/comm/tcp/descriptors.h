// Descriptors that a rank over TCP takes, counted before it meets anyone: a rank that runs out of them on the
// way would look to the others as one that did not arrive.
#pragma once

#include <cstdint>

namespace hawser::comm {

/// While ranks meet and agree about a start, and some for the files of a run. Rank 0 keeps one for each rank more.
int64_t descriptors_of(int32_t rank, int32_t world_size);

/// Of `peers` connections more while they are made, and some for the files of a run.
int64_t group_descriptors(int64_t peers);

/// Throws kFailedPrecondition, with the number needed, if this process may not open `more` beside those that
/// it has. The limit stays as it is: it is the host's to raise.
void check_descriptors(int32_t rank, int32_t world_size, int64_t more);

}  // namespace hawser::comm
