#include "bindings/cli/launch/elastic_launch.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bindings/cli/load_config.h"

namespace hawser::cli {
namespace {

double comm_timeout(const hws_config* config) {
  return resolved_tree(config).at("comm").at("timeout_seconds").get<double>();
}

}  // namespace

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

ElasticLaunch::ElasticLaunch(const LaunchOptions& options, const hws_config* config, std::string folder,
                             ProcessTeam* team)
    : options_(options),
      config_(config),
      folder_(std::move(folder)),
      team_(team),
      patience_seconds_(comm_timeout(config)) {}

ElasticLaunch::~ElasticLaunch() { dismiss(); }

void ElasticLaunch::begin() {
  make<Config>(hws_config_fit_ranks, config_, fitting(options_.processes));  // throws the reason
  meet();
}

void ElasticLaunch::start_process() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Failure(HWS_UNAVAILABLE, std::string("cannot start a rank: socketpair: ") + std::strerror(errno));
  Process process;
  process.control = ends[0];
  processes_.push_back(process);
  std::vector<std::string> words = options_.words;
  for (const char* word : {"--elastic", "--control"}) words.push_back(word);
  words.push_back(std::to_string(ends[1]));
  try {
    team_->start(words, /*prints=*/true, ends[1]);
  } catch (...) {
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

void ElasticLaunch::add_polled(std::vector<pollfd>* polled) const {
  for (const Process& p : processes_) {
    if (p.control >= 0 && p.state != State::kGone) polled->push_back({p.control, POLLIN, 0});
  }
}

void ElasticLaunch::lost_one() {
  if (!broken_) broken_at_ = Clock::now();
  broken_ = true;
}

bool ElasticLaunch::killed(size_t member, const std::string& how) {
  Process& p = processes_[member];
  const bool in_meeting = p.state == State::kTraining;
  listen_to(member);  // reads the member's last messages
  p.state = State::kGone;
  if (team_->asked_to_end()) return done_;
  if (done_) return true;  // the run has finished
  if (in_meeting) lost_one();
  std::fprintf(stderr, "hawser: note: rank %d %s\n", p.rank, p.why_ended ? p.why_ended : how.c_str());
  return true;
}

/// A member that ends well has reached the run's last step, so all other members end too and no more meetings
/// are held. A member that fails by itself ends the run, because its failure would happen again.
void ElasticLaunch::finished(size_t member, int /*code*/) {
  processes_[member].state = State::kGone;
  done_ = true;
  dismiss();
}

void ElasticLaunch::listen_to(size_t member) {
  Process& p = processes_[member];
  std::array<char, 64> text;
  ssize_t n = 0;
  while ((n = recv(p.control, text.data(), text.size(), MSG_DONTWAIT)) > 0) {
    const std::string_view word(text.data(), static_cast<size_t>(n));
    if (word.starts_with(kBegan)) {
      began_from_ = std::stoll(std::string(word.substr(std::strlen(kBegan))));
      if (!held_ && RunFolder::is_run(folder_)) held_.emplace(RunFolder::look_into(folder_));
    }
    if (word != kLost) continue;
    p.state = State::kWaiting;
    lost_one();
  }
}

void ElasticLaunch::look() {
  for (size_t m = 0; m < processes_.size(); ++m) {
    if (processes_[m].state == State::kTraining) listen_to(m);
  }
  if (done_ || !broken_ || team_->asked_to_end()) return;
  kill_unresponsive();
  if (!all_have_left()) return;
  if (!headway_.goes_on(began_from_)) {
    throw Failure(HWS_ABORTED,
                  "the run lost ranks " + std::to_string(ProgressCheck::kMostMeetings) +
                      " times without a new checkpoint in between (the last: step " +
                      std::to_string(std::max<int64_t>(0, began_from_)) +
                      "); find out what kills its processes, or save more often (/checkpoint/every_seconds)");
  }
  meet();
}

/// Kills members that block a new meeting: a stopped member as soon as another member reports the loss, and
/// any other member after the time that the ranks themselves would wait.
void ElasticLaunch::kill_unresponsive() {
  const bool noticed = !waiting().empty();
  const bool late = std::chrono::duration<double>(Clock::now() - broken_at_).count() > patience_seconds_;
  for (size_t m = 0; m < processes_.size(); ++m) {
    Process& p = processes_[m];
    const bool still = team_->is_stopped(m);
    if (p.state != State::kTraining || !(late || (still && noticed))) continue;
    p.why_ended = still ? "hung and was killed" : "did not notice that and was killed";
    team_->kill_member(m);
  }
}

bool ElasticLaunch::all_have_left() const {
  return std::none_of(processes_.begin(), processes_.end(),
                      [](const Process& p) { return p.state == State::kTraining; });
}

/// Returns the waiting members, lowest rank first, so that the member that prints continues to print.
std::vector<size_t> ElasticLaunch::waiting() const {
  std::vector<size_t> members;
  for (size_t m = 0; m < processes_.size(); ++m) {
    if (processes_[m].state == State::kWaiting) members.push_back(m);
  }
  std::stable_sort(members.begin(), members.end(), [this](size_t a, size_t b) {
    return static_cast<uint32_t>(processes_[a].rank) < static_cast<uint32_t>(processes_[b].rank);
  });
  return members;
}

/// Returns the largest number of ranks up to `most` that the config can have; 1 if there is none.
int32_t ElasticLaunch::fitting(int32_t most) const {
  for (int32_t ranks = most; ranks > 1; --ranks) {
    hws_config* raw = nullptr;
    const int32_t status = hws_config_fit_ranks(config_, ranks, &raw);
    const Config fitted(raw);
    if (status == HWS_OK) return ranks;
  }
  return 1;
}

void ElasticLaunch::meet() {
  const int32_t at_least = options_.at_least > 0 ? options_.at_least : options_.processes;
  auto here = static_cast<int32_t>(waiting().size());
  if (here < 1 || fitting(here) < at_least) {
    for (; here < options_.processes; ++here) start_process();
  }
  const std::vector<size_t> members = waiting();
  const int32_t world = fitting(here);
  if (meeting_ > 0) std::fprintf(stderr, "hawser: note: continuing with %d ranks\n", world);
  Assignment place{++meeting_, 0, world, options_.address.empty() ? free_address() : options_.address,
                   held_ ? held_->path() : ""};
  for (; place.rank < world; ++place.rank) {
    const size_t m = members[static_cast<size_t>(place.rank)];
    const std::string text = to_text(place);
    // If the process has died, the launcher finds that out separately
    send(processes_[m].control, text.data(), text.size(), MSG_NOSIGNAL);
    processes_[m].state = State::kTraining;
    processes_[m].rank = place.rank;
    team_->set_rank(m, place.rank);
  }
  team_->forget_lines();
  broken_ = false;
  began_from_ = -1;
}

/// Closes all control descriptors, because the run needs no more processes.
void ElasticLaunch::dismiss() {
  for (Process& p : processes_) {
    if (p.control >= 0) close(p.control);
    p.control = -1;
  }
}

}  // namespace hawser::cli
