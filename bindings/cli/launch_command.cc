// `hawser launch`: the ranks of one job as processes of this machine. What is wrong with the input is found
// before any of them starts.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bindings/cli/commands.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/process_team.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/resume.h"

namespace hawser::cli {
namespace {

/// A port of the loopback that is free now.
std::string free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool found = fd >= 0 && bind(fd, any, size) == 0 && getsockname(fd, any, &size) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!found)
    throw Failure(HWS_UNAVAILABLE, std::string("no free port on the loopback: ") + std::strerror(error));
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

RankOptions rank_options(const LaunchOptions& options, const std::string& address, int32_t rank) {
  RankOptions ranks;
  ranks.comm = address;
  ranks.rank = rank;
  ranks.world = options.processes;
  ranks.processes_here = options.processes;
  return ranks;
}

std::vector<std::string> words_of(const LaunchOptions& options, const RankOptions& ranks) {
  std::vector<std::string> words = options.words;
  for (const std::string& word :
       {std::string("--comm"), ranks.comm, std::string("--rank"), std::to_string(ranks.rank),
        std::string("--world"), std::to_string(ranks.world), std::string("--processes-here"),
        std::to_string(ranks.processes_here)}) {
    words.push_back(word);
  }
  return words;
}

}  // namespace

int run_launch(const LaunchOptions& options, const TrainOptions& train) {
  if (!train.ranks.comm.empty() || train.ranks.rank >= 0 || train.ranks.world > 0) {
    refuse("launch chooses --comm, --rank and --world itself; to start each rank by hand, leave launch out");
  }
  if (train.config.config.empty() && train.resume.empty())
    refuse("launch train needs a CONFIG, or --resume DIR");
  const Config config = train.resume.empty()
                            ? load_config(train.config)
                            : resume_config(RunFolder::look_into(train.resume), train.config);
  const std::string address = options.address.empty() ? free_address() : options.address;
  check_ranks(rank_options(options, address, 0), config.get());
  if (!train.out.empty()) RunFolder::check_unused(train.out);
  ProcessTeam team;
  for (int32_t rank = 0; rank < options.processes; ++rank) {
    team.start(words_of(options, rank_options(options, address, rank)));
  }
  return team.wait();
}

}  // namespace hawser::cli
