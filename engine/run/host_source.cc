#include "engine/run/host_source.h"

#include <algorithm>
#include <string>
#include <vector>

namespace hawser::train {

/// Calls this process's source and checks its batch.
bool HostSource::ask(const config::ResolvedConfig& config, SourceRequest* request) const {
  if (!fill_(request)) return false;
  const PushedBatch::Room& room = request->room;
  check_batch({request->rows, request->cols, room.tokens, room.targets,
               request->documents ? room.document_begin : nullptr, request->weights ? room.weights : nullptr},
              config.model.vocab_size, config.batch.sequence, true);
  return true;
}

void HostSource::fetch(const Ranks& ranks, Progress* progress) const {
  const config::ResolvedConfig& config = ranks.config();
  SourceRequest request;
  request.step = progress->state.step + 1;
  request.samples = progress->state.samples;
  request.rows = config.batch.rows_after(request.samples);
  request.cols = config.batch.sequence;
  request.room = progress->pushed.make_room(request.rows, request.cols);
  bool more = true;
  if (ranks.all_local()) {
    more = ask(config, &request);
  } else {
    const std::vector<std::string> answers =
        ranks.from_all_processes([&] { return std::string(ask(config, &request) ? "more" : "end"); });
    more = std::find(answers.begin(), answers.end(), "end") == answers.end();
  }
  if (!more)
    throw EndOfData(Code::kOutOfRange, fmt::format("the data source has no batch for step {}", request.step));
  progress->pushed.take(request.documents, request.weights);
}

}  // namespace hawser::train
