// Runs `hawser train`: once, or repeatedly as ranks are lost.
#include "bindings/cli/commands.h"
#include "bindings/cli/output.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/train/elastic.h"
#include "bindings/cli/train/train_once.h"

namespace hawser::cli {

int run_train(const TrainOptions& asked) {
  output().may_be_closed();  // the run matters more than its output
  TrainOptions options = asked;
  options.ranks = with_environment(asked.ranks);
  if (options.ranks.secret_fd >= 0) options.ranks.secret = JobSecret::take(options.ranks.secret_fd);
  return options.elastic ? run_elastic(options) : train_once(options, [](int64_t) {});
}

}  // namespace hawser::cli
