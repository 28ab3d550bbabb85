// Reads and writes the files of a run.
#include "bindings/cli/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/text/prepare.h"

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kResolved = "resolved.json";
constexpr const char* kStarts = "starts.jsonl";

}  // namespace

void RunFolder::check_unused(const std::string& path) {
  std::error_code error;
  if (exists(path)) {
    if (!is_folder(path))
      throw Failure(HWS_ALREADY_EXISTS, "--out " + path + " is a file; name a new folder");
    bool empty = true;  // except for rows that were prepared for this run
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
      empty =
          empty && entry->path().string() == prepared_folder_of(path) && is_prepared(entry->path().string());
    if (error) fail_file("--out " + path + ": cannot look into it", error.value());
    if (!empty) {
      throw Failure(HWS_ALREADY_EXISTS,
                    "--out " + path +
                        " is not empty; name a new folder, or continue a run there with --resume " + path);
    }
  }
  fs::path parent = absolute_path(path);
  while (!exists(parent.string()) && parent.has_parent_path() && parent != parent.parent_path()) {
    parent = parent.parent_path();
  }
  if (!is_folder(parent.string()))
    throw Failure(HWS_NOT_FOUND, "--out " + path + ": " + parent.string() + " is not a folder");
  if (access(parent.c_str(), W_OK) != 0)
    fail_file("--out " + path + ": cannot write in " + parent.string(), errno);
}

RunFolder RunFolder::create(const std::string& path, const std::string& config_json,
                            const std::string& resolved_json, const std::vector<std::string>& overrides) {
  check_unused(path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_file("cannot make the folder " + path, error.value());
  RunFolder folder(path);
  folder.lock();
  folder.write_config(config_json, resolved_json);
  replace_file(path + "/overrides.json", ordered_json(overrides).dump() + "\n");
  folder.metrics_.open(folder.metrics_path(), O_CREAT | O_EXCL);
  return folder;
}

std::vector<MetricRow> RunFolder::rows() const {
  return rows_of(read_file(metrics_path()), std::numeric_limits<int64_t>::max());
}

bool RunFolder::is_run(const std::string& path) {
  return exists(path + "/config.json") && exists(path + "/metrics.jsonl");
}

void RunFolder::clear_unfinished(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> made;
  bool is_unfinished = false;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string file = name.substr(0, name.find(".tmp-"));  // replace_file appends ".tmp-" and more
    is_unfinished = is_unfinished || file == kResolved;
    if (file == kResolved || file == "config.json" || file == "overrides.json")
      made.push_back(entry->path());
    else if (entry->path().string() != prepared_folder_of(path))
      return;  // metrics.jsonl, which is created last, or a file of the user
  }
  if (error || !is_unfinished) return;
  RunFolder folder(path);
  if (flock(folder.folder_, LOCK_EX | LOCK_NB) != 0) return;  // another process is creating the folder now
  for (const fs::path& file : made) fs::remove(file, error);
}

RunFolder RunFolder::open(const std::string& path) {
  RunFolder folder = look_into(path);
  folder.lock();
  return folder;
}

RunFolder RunFolder::look_into(const std::string& path) {
  if (!is_folder(path)) throw Failure(HWS_NOT_FOUND, "--resume " + path + ": no such folder");
  RunFolder folder(path);
  if (!is_run(path)) {
    throw Failure(HWS_NOT_FOUND, "--resume " + path +
                                     ": not the folder of a run (config.json or metrics.jsonl is missing); "
                                     "start one with --out");
  }
  return folder;
}

RunFolder::RunFolder(const std::string& path)
    : path_(path), folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) fail_file("cannot open " + path, errno);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::exchange(other.folder_, -1)),
      metrics_(std::move(other.metrics_)),
      samples_(std::move(other.samples_)) {}

RunFolder::~RunFolder() {
  if (folder_ >= 0) ::close(folder_);
}

std::string RunFolder::path() const {
  struct stat own, there;
  const auto leads_here = [&](const std::string& path) {
    return stat(path.c_str(), &there) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino;
  };
  if (fstat(folder_, &own) != 0 || leads_here(path_)) return path_;
  std::error_code error;
  const std::string moved = fs::read_symlink("/proc/self/fd/" + std::to_string(folder_), error).string();
  return !error && leads_here(moved) ? moved : path_;
}

void RunFolder::lock() {
  if (flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Failure(HWS_FAILED_PRECONDITION,
                  "another process is training in " + path_ + "; wait for it or stop it first");
  }
}

std::vector<std::string> RunFolder::overrides() const {
  const std::string path = this->path() + "/overrides.json";
  if (!exists(path)) return {};
  const auto json = parse_json_or_discard(read_file(path));
  std::vector<std::string> pointers;
  if (json.is_array()) {
    for (const auto& entry : json) {
      if (entry.is_string()) pointers.push_back(entry.get<std::string>());
    }
  }
  return pointers;
}

/// Writes resolved.json first: clear_unfinished() removes a config.json only next to a resolved.json, because
/// any other config.json is the user's own.
void RunFolder::write_config(const std::string& config_json, const std::string& resolved_json) const {
  replace_file(path() + "/" + kResolved, resolved_json + "\n");
  replace_file(config_path(), config_json + "\n");
}

History RunFolder::keep_until(int64_t step) { return {keep_rows_until(step), keep_answers_until(step)}; }

std::vector<MetricRow> RunFolder::keep_rows_until(int64_t step) {
  std::string kept;
  std::vector<MetricRow> rows = rows_of(read_file(metrics_path()), step, &kept);
  replace_file(metrics_path(), kept);
  metrics_.open(metrics_path(), 0);
  return rows;
}

std::vector<SampleAnswer> RunFolder::keep_answers_until(int64_t step) {
  std::vector<SampleAnswer> answers;
  if (!exists(samples_path())) return answers;
  std::string kept;
  std::istringstream lines(read_file(samples_path()));
  for (std::string line; std::getline(lines, line);) {
    SampleAnswer answer;
    if (!from_json(line, &answer) || answer.step > step) continue;
    answers.push_back(std::move(answer));
    kept += line + "\n";
  }
  replace_file(samples_path(), kept);
  return answers;
}

std::vector<std::string> RunFolder::set_aside_checkpoints(const std::vector<std::string>& names) const {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    const std::string path = checkpoints_path() + "/" + name;
    const std::string free = checkpoints_path() + "/damaged-" + name;
    std::string aside = free;
    for (int i = 2; exists(aside); ++i) aside = free + "-" + std::to_string(i);
    if (std::rename(path.c_str(), aside.c_str()) != 0) fail_file("cannot move " + path + " aside", errno);
    paths.push_back(aside);
  }
  return paths;
}

void RunFolder::note(const std::string& file_name, const std::string& row) const {
  const std::string path = this->path() + "/" + file_name;
  const int file = openat(folder_, file_name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) fail_file("cannot open " + path, errno);
  const std::unique_ptr<const int, void (*)(const int*)> close_it(&file, [](const int* f) { ::close(*f); });
  write_all(file, row + "\n", path);
}

void RunFolder::note_start(int64_t step) const {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  note(kStarts, ordered_json{{"step", step}, {"time", text}}.dump());
}

std::vector<RunStart> RunFolder::starts() const {
  std::vector<RunStart> starts;
  if (!exists(path() + "/" + kStarts)) return starts;
  std::istringstream lines(read_file(path() + "/" + kStarts));
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_json_or_discard(line);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
        json.contains("time") && json["time"].is_string())
      starts.push_back({json["step"].get<int64_t>(), json["time"].get<std::string>()});
  }
  return starts;
}

void RunFolder::note_ranks(int64_t step, int64_t ranks) const {
  note("ranks.jsonl", ordered_json{{"step", step}, {"ranks", ranks}}.dump());
}

void RunFolder::note_choices(int64_t step, const std::string& choices_json) const {
  note("choices.jsonl", ordered_json{{"step", step}, {"choices", parse_json(choices_json)}}.dump());
}

void RunFolder::append(const MetricRow& row) { metrics_.append(to_json(row), metrics_path()); }

void RunFolder::append(const SampleAnswer& answer) {
  if (!samples_.is_open()) samples_.open(samples_path(), O_CREAT);
  samples_.append(to_json(answer), samples_path());
}

}  // namespace hawser::cli
