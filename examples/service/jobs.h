// Jobs: all jobs of the service, and the thread that trains them one after the other. Any thread may call
// the functions.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "job.h"
#include "parse_json.h"

namespace service {

/// A refused request: the status and the body of the response.
struct Refused : std::runtime_error {
  Refused(int status_code, json error)
      : std::runtime_error(error.at("message")), status(status_code), body(std::move(error)) {}
  Refused(int status_code, const std::string& code, const std::string& message)
      : Refused(status_code, error_json(code, message)) {}
  int status;
  json body;
};

class Jobs {
 public:
  /// Continues the jobs in a folder. New jobs may read and write only below `allowed`; "" allows every path.
  explicit Jobs(const std::filesystem::path& folder, const std::filesystem::path& allowed = {});
  ~Jobs() { stop(); }
  /// Ends the running job after its current step; its state on disk remains "running". Metrics streams end.
  void stop();

  /// Adds a job from the text of a request.
  json add(const std::string& body);
  json list() const;
  json get(const std::string& name) const;
  json cancel(const std::string& name);
  struct NextRows {
    std::string text;    // complete rows; "": none arrived within half a second
    bool ended = false;  // there will be no more rows
  };
  /// Returns the rows of metrics from a byte offset on. Waits for at least one row.
  NextRows rows(const std::string& name, std::uintmax_t from) const;
  /// Returns {"files": [{"name", "bytes"}]}.
  json model(const std::string& name) const;
  std::filesystem::path model_file(const std::string& name, const std::string& file) const;

 private:
  Job& find(const std::string& name) const;
  json state_of(const Job& job) const;
  void follow(Job* job, const hawser::Engine* engine);
  void work();
  Job* next();
  void run(Job* job);
  void train(Job* job);
  void end(Job* job, const std::string& state, json error);

  const std::filesystem::path folder_, allowed_;
  mutable std::mutex mutex_;  // guards the jobs
  mutable std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;
  std::atomic<bool> stop_ = false;
  std::thread worker_;
};

}  // namespace service
