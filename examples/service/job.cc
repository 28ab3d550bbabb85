#include "job.h"

#include <fstream>
#include <iterator>

#include "parse_json.h"

namespace service {
namespace fs = std::filesystem;

json error_json(const std::string& code, const std::string& message, json details) {
  return {{"code", code}, {"message", message}, {"details", std::move(details)}};
}

json error_json(const hawser::Error& error) {
  return error_json(hawser::status_name(error.code()), error.what(), parse_json(error.details()));
}

void store(const Job& job) {
  const json state = {{"name", job.name},
                      {"number", job.number},
                      {"config", job.config},
                      {"checkpoint_every", job.checkpoint_every},
                      {"state", job.state},
                      {"step", job.step},
                      {"total_steps", job.total_steps},
                      {"loss", job.loss},
                      {"error", job.error}};
  const fs::path path = job.folder / "job.json", fresh = job.folder / "job.json.new";
  std::ofstream file(fresh, std::ios::binary);
  file << state.dump(1);
  file.close();
  std::error_code failed;
  if (file) fs::rename(fresh, path, failed);
  if (!file || failed) throw hawser::Io("cannot write " + path.string() + ": is the disk full?");
}

void restore(const fs::path& folder, Job* job) {
  std::ifstream file(folder / "job.json", std::ios::binary);
  const json state = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  job->folder = folder;
  job->name = folder.filename();
  job->number = state.at("number");
  job->config = state.at("config");
  job->checkpoint_every = state.at("checkpoint_every");
  job->state = state.at("state");
  job->step = state.at("step");
  job->total_steps = state.at("total_steps");
  job->loss = state.at("loss");
  job->error = state.at("error");
  std::error_code none;
  if (job->state == "running") job->state = "queued";
  if (const std::uintmax_t bytes = fs::file_size(folder / "metrics.jsonl", none); job->ended() && !none)
    job->row_bytes = bytes;
}

Rows::Rows(const Job& job, std::int64_t step, json* loss) : path_(job.folder / "metrics.jsonl") {
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const json row = parse_json(line);
    if (row.at("step") > step) break;
    *loss = row.at("loss");
    bytes_ += line.size() + 1;
  }
  std::ofstream(path_, std::ios::app);  // creates the file if it does not exist
  fs::resize_file(path_, bytes_);
}

void Rows::append(const hawser::TrainRecord& record) {
  json row = {{"step", record.step},
              {"loss", record.loss},
              {"grad_norm", record.grad_norm},
              {"learning_rate", record.learning_rate},
              {"tokens_per_second", record.tokens_per_second}};
  if (record.validation_loss == record.validation_loss) row["validation_loss"] = record.validation_loss;
  const std::string line = row.dump() + "\n";
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << line;
  file.close();
  if (!file) {
    std::error_code ignored;
    fs::resize_file(path_, bytes_, ignored);  // removes the incomplete row
    throw hawser::Io("cannot write " + path_.string() + ": is the disk full?");
  }
  bytes_ += line.size();
}

}  // namespace service
