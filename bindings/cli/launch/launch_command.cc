// `hawser launch`: runs the ranks of one job as processes on this machine. Checks input before any of them
// starts.
#include <cstdio>

#include "bindings/cli/commands.h"
#include "bindings/cli/launch/elastic_launch.h"
#include "bindings/cli/launch/process_team.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/text/prepare.h"
#include "bindings/cli/train/resume.h"

namespace hawser::cli {
namespace {

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

/// Returns the secret of this job, unless the user gave one in a file. A rendezvous of one rank shows whether
/// this installation can prove secrets. Throws Failure if it cannot and the network is not trusted.
std::optional<JobSecret> job_secret(const TrainOptions& train) {
  if (!train.ranks.secret_file.empty()) return std::nullopt;
  const JobSecret secret = JobSecret::random();
  hws_comm_address alone{};
  alone.struct_size = sizeof alone;
  alone.world_size = 1;
  alone.address = "127.0.0.1:0";
  secret.lend_to(&alone);
  try {
    make<Comm>(hws_comm_create_address, &alone);
    return secret;
  } catch (const Failure& failure) {
    const bool cannot_prove = failure.status() == HWS_UNAVAILABLE || failure.status() == HWS_ABI_MISMATCH;
    if (!cannot_prove) return secret;  // the ranks will report any other problem
    if (!train.ranks.trust_network)
      throw Failure(failure.status(), std::string(failure.what()) + " (--trust-network)");
    std::fprintf(stderr, "hawser: note: the ranks meet without a secret: %s\n", failure.what());
    return std::nullopt;
  }
}

/// Returns the ranks' heartbeat limit plus one interval, so that the ranks report a loss first: their errors
/// name the missing rank more reliably.
double still_seconds(const TrainOptions& train) {
  constexpr double kUsual = 10, kBeat = 1;
  return (train.ranks.dead_after > 0 ? train.ranks.dead_after : kUsual) + kBeat;
}

int launch_elastic(const LaunchOptions& options, const TrainOptions& train) {
  if (options.at_least > options.processes)
    refuse("--at-least " + std::to_string(options.at_least) + " of " + std::to_string(options.processes) +
           " processes: give fewer; with fewer left than that, lost processes are replaced");
  const std::string folder = train.out.empty() ? train.resume : train.out;
  if (folder.empty()) refuse("launch --elastic needs --out DIR: its checkpoints are where the run continues");
  const Config config = RunFolder::is_run(folder)
                            ? same_run_config(RunFolder::look_into(folder), train.config)
                            : load_config(train.config);
  allow_descriptors();
  ProcessTeam team(job_secret(train), still_seconds(train));
  ElasticLaunch launch(options, config.get(), folder, &team);
  launch.begin();
  return team.wait(&launch);
}

}  // namespace

int run_launch(const LaunchOptions& options, const TrainOptions& asked) {
  const TrainOptions train = with_prepared_data(asked);
  if (!train.ranks.comm.empty() || train.ranks.rank >= 0 || train.ranks.world > 0) {
    refuse("launch sets --comm, --rank and --world itself; to start each rank by hand, leave launch out");
  }
  if (train.config.config.empty() && train.resume.empty())
    refuse("launch train needs a CONFIG, or --resume DIR");
  if (train.elastic) refuse("put --elastic before train: hawser launch --elastic -n N train CONFIG");
  if (options.elastic) return launch_elastic(options, train);
  if (options.at_least > 0) refuse("--at-least needs --elastic");
  const Config config = train.resume.empty()
                            ? load_config(train.config)
                            : resume_config(RunFolder::look_into(train.resume), train.config);
  const std::string address = options.address.empty() ? free_address() : options.address;
  check_ranks(rank_options(options, address, 0), config.get());
  if (!train.out.empty()) RunFolder::check_unused(train.out);
  allow_descriptors();
  ProcessTeam team(job_secret(train), still_seconds(train));
  for (int32_t rank = 0; rank < options.processes; ++rank) {
    team.start(words_of(options, rank_options(options, address, rank)));
  }
  return team.wait();
}

}  // namespace hawser::cli
