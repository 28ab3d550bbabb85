#include "engine/comm/tcp/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <string>

#include "engine/base/error.h"
#include "engine/comm/link_topology.h"

namespace hawser::comm {
namespace {

/// Descriptors for data, checkpoints, metrics, and one pending connection.
constexpr int64_t kForFiles = 32;

/// This does not use std::filesystem, whose iterators end the process if there is no memory for a name.
int64_t open_descriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

}  // namespace

int64_t descriptors_of(int32_t rank, int32_t world_size) {
  constexpr int64_t kOwn = 2;     // the connection to the rendezvous, and its wake-up
  constexpr int64_t kServer = 3;  // the rendezvous: a listener and a pipe
  const auto agreements = static_cast<int64_t>(partners(LinkTopology::kTree, world_size, rank).size());
  return kOwn + (rank == 0 ? world_size + kServer : 0) + group_descriptors(agreements);
}

int64_t group_descriptors(int64_t peers) {
  constexpr int64_t kOwn = 4;  // two listeners, a connection being opened, and the memory that it will share
  return peers + kOwn + kForFiles;
}

void check_descriptors(int32_t rank, int32_t world_size, int64_t more) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const int64_t open = open_descriptors(), needed = open + more;
  if (needed <= static_cast<int64_t>(limit.rlim_cur)) return;
  fail(Code::kFailedPrecondition,
       "rank {} of {} needs {} file descriptors, {} of them open already, but this process may have {} "
       "(RLIMIT_NOFILE; its hard limit is {}); raise the limit where the ranks are started, as with "
       "`ulimit -n {}`",
       rank, world_size, needed, open, limit.rlim_cur,
       limit.rlim_max == RLIM_INFINITY ? "none" : std::to_string(limit.rlim_max), needed);
}

}  // namespace hawser::comm
