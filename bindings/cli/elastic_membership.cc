#include "bindings/cli/elastic_membership.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <sstream>

namespace hawser::cli {
namespace {

/// Time for the ranks of a launcher's meeting to find each other. All of them are running, so a rank that has
/// not arrived by then has died, and another meeting is needed.
constexpr double kMeetSeconds = 4;

}  // namespace

std::string to_text(const Assignment& place) {
  std::ostringstream text;
  text << place.meeting << ' ' << place.rank << ' ' << place.world << ' ' << place.address << ' '
       << place.folder;
  return text.str();
}

Assignment assignment_from(const std::string& text) {
  Assignment place;
  std::istringstream words(text);
  if (!(words >> place.meeting >> place.rank >> place.world >> place.address))
    throw Failure(HWS_INTERNAL, "the launcher said \"" + text + "\", which is not a place in a run");
  words.get();
  std::getline(words, place.folder, '\0');
  return place;
}

bool ProgressCheck::goes_on(int64_t step) {
  if (step > step_) {
    step_ = step;
    meetings_ = 0;
  }
  return ++meetings_ < kMostMeetings;
}

bool means_lost_ranks(const Failure& failure) {
  return failure.status() == HWS_UNAVAILABLE || failure.status() == HWS_TIMEOUT ||
         failure.status() == HWS_ABORTED;
}

std::optional<RankOptions> ElasticMembership::next() {
  began_from_ = -1;
  now_ = asked_;
  if (asked_.control < 0) return now_;
  std::array<char, PATH_MAX + 256> text;
  ssize_t n = 0;
  do {
    n = recv(asked_.control, text.data(), text.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return std::nullopt;
  const Assignment place = assignment_from(std::string(text.data(), static_cast<size_t>(n)));
  now_.comm = place.address;
  now_.rank = place.rank;
  now_.world = now_.processes_here = place.world;
  now_.meeting = place.meeting;
  now_.folder = place.folder;
  now_.meet_seconds = kMeetSeconds;
  return now_;
}

void ElasticMembership::began(int64_t step) {
  began_from_ = step;
  if (now_.rank == 0) say(kBegan + std::to_string(step));
}

void ElasticMembership::lost(const Failure& failure) {
  if (!means_lost_ranks(failure)) throw failure;
  if (asked_.control >= 0) return say(kLost);
  // Without a launcher, a run never begins if an address is wrong or a rank was not started.
  if (began_from_ < 0 || asked_.comm.empty() || !headway_.goes_on(began_from_)) throw failure;
}

/// Ignores errors: if the launcher has died, the system ends this process too.
void ElasticMembership::say(const std::string& word) const {
  if (asked_.control >= 0) send(asked_.control, word.data(), word.size(), MSG_NOSIGNAL);
}

}  // namespace hawser::cli
