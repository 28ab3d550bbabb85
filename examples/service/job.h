// One training job of the service: its request, its progress, and its folder, which contains
//   job.json        the job's state; a change replaces the whole file
//   metrics.jsonl   one row per step
//   checkpoints/    step-N, from which a restarted service resumes
//   model/          the trained model as a Hugging Face folder, once the job is done
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <hawser.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace service {

using nlohmann::json;

struct Job {
  std::filesystem::path folder;
  std::string name;
  std::int64_t number = 0;  // order of arrival
  json config;
  std::int64_t checkpoint_every = 10;

  std::string state = "queued";  // queued, running, done, failed, cancelled
  std::int64_t step = 0, total_steps = 0;
  json loss;   // loss of the last step; null: none
  json error;  // why the job failed; null: it has not

  std::atomic<bool> cancel = false;        // cancellation was requested
  std::uintmax_t row_bytes = 0;            // bytes of metrics.jsonl that can be read
  const hawser::Engine* engine = nullptr;  // set while the job trains

  bool ended() const { return state != "queued" && state != "running"; }
};

/// Returns {"code", "message", "details"}.
json error_json(const std::string& code, const std::string& message, json details = nullptr);
json error_json(const hawser::Error& error);

/// Writes the job's state. Throws hawser::Io.
void store(const Job& job);
/// Reads a job from a folder. A job that was running is queued again.
void restore(const std::filesystem::path& folder, Job* job);

/// Opens metrics.jsonl to append rows. Rows after `step` are removed, because they will be written again.
/// *loss: the loss of the last row that is kept.
class Rows {
 public:
  Rows(const Job& job, std::int64_t step, json* loss);
  /// Appends a row. Throws hawser::Io.
  void append(const hawser::TrainRecord& record);
  std::uintmax_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::uintmax_t bytes_ = 0;  // size of the complete rows
};

}  // namespace service
