#include "bindings/cli/train/elastic.h"

#include <cstdio>
#include <optional>
#include <string>

#include "bindings/cli/elastic_membership.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/run_folder.h"
#include "bindings/cli/train/train_once.h"

namespace hawser::cli {
namespace {

std::string& folder_of(TrainOptions& options) { return options.out.empty() ? options.resume : options.out; }

}  // namespace

int run_elastic(const TrainOptions& options) {
  if (options.out.empty() && options.resume.empty())
    refuse("--elastic needs --out DIR: its checkpoints are where a run continues when ranks are lost");
  ElasticMembership places(options.ranks);
  bool written = false;           // in this meeting or an earlier one
  std::optional<RunFolder> held;  // the folder may be moved between two meetings
  while (const auto ranks = places.next()) {
    TrainOptions now = options;
    now.ranks = *ranks;
    if (!ranks->folder.empty())
      folder_of(now) = ranks->folder;
    else if (held)
      folder_of(now) = held->path();
    try {
      return train_once(now, [&](int64_t step) {
        written = true;
        if (!held && RunFolder::is_run(folder_of(now))) held.emplace(RunFolder::look_into(folder_of(now)));
        places.began(step);
      });
    } catch (Failure& failure) {  // engine and comm have been destroyed
      if (written) failure.note_written();
      if (InterruptScope::interrupted()) throw;
      places.lost(failure);
      // With a launcher, the launcher decides. Without one, a person or a scheduler has to restart the
      // missing rank.
      if (ranks->control < 0)
        std::fprintf(stderr, "hawser: note: %s; waiting for it to come back\n", failure.what());
    }
  }
  return kExitOk;
}

}  // namespace hawser::cli
