// Operations: checks every operation on the group of all ranks against the serial reference, for any Comm.
// local_test and the point-to-point tests call the same cases.
#pragma once

#include "engine/comm/comm.h"

namespace hawser::testing {

/// Each runs one operation on every rank and expects results bit-identical to the reference.
void check_all_gather(comm::RankComm& rank);
void check_reduce_scatter(comm::RankComm& rank);
void check_all_reduce(comm::RankComm& rank);
void check_all_reduce_i64(comm::RankComm& rank);
void check_all_to_all(comm::RankComm& rank);
void check_all_to_all_v(comm::RankComm& rank);
void check_broadcast(comm::RankComm& rank);
void check_send_recv(comm::RankComm& rank);
void check_sums_of_bf16(comm::RankComm& rank);
void check_large(comm::RankComm& rank);
void check_large_sums_in_records(comm::RankComm& rank);

/// Checks the operations of a group of LinkTopology::kTree, which rejects all others.
void check_agreements(comm::RankComm& rank);

/// Checks all of the above and a barrier.
void check_every_operation(comm::RankComm& rank);

/// Makes `calls` random calls over several overlapping groups, with several in flight; `seed` determines all
/// of them.
void check_random_calls(comm::RankComm& rank, uint32_t seed, int32_t calls);

}  // namespace hawser::testing
