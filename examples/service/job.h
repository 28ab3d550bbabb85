// One training job of the service: what it is asked to do, how far it is, and its folder:
//   job.json        this state, replaced as a whole when it changes
//   metrics.jsonl   a row for each step
//   checkpoints/    step-N, from which a restarted service goes on
//   model/          the trained model as a Hugging Face folder, when it is done
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
  json loss;   // of the last step; null: none
  json error;  // why it has failed; null: it has not

  std::atomic<bool> cancel = false;        // somebody wants it to end
  std::uintmax_t row_bytes = 0;            // so much of metrics.jsonl can be read
  const hawser::Engine* engine = nullptr;  // while it trains

  bool ended() const { return state != "queued" && state != "running"; }
};

/// {"code", "message", "details"}
json error_json(const std::string& code, const std::string& message, json details = nullptr);
json error_json(const hawser::Error& error);

/// Writes the job's state. Throws hawser::Io.
void store(const Job& job);
/// Reads it from a folder. A job that was running is queued again.
void restore(const std::filesystem::path& folder, Job* job);

/// Opens metrics.jsonl to append to it, without the rows after `step`, which will be written again. *loss:
/// that of the last row that stays.
class Rows {
 public:
  Rows(const Job& job, std::int64_t step, json* loss);
  /// Appends a row. Throws hawser::Io.
  void append(const hawser::TrainRecord& record);
  std::uintmax_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::uintmax_t bytes_ = 0;  // of whole rows
};

}  // namespace service
