#include "jobs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <regex>
#include <vector>

namespace service {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000'000;  // the maximum of /checkpoint/every

/// Returns the job that a request describes.
std::unique_ptr<Job> parse_request(const std::string& body) {
  const auto bad = [](const std::string& why) { return Refused(400, "BAD_REQUEST", why); };
  const json request = parse_json(body);
  if (!request.is_object())
    throw bad("the body is not a JSON object, or nests deeper than " + std::to_string(kMostJsonDepth) +
              " levels");
  for (const auto& [key, value] : request.items())
    if (key != "name" && key != "config" && key != "checkpoint_every")
      throw bad("unknown key \"" + key + "\"; there are name, config and checkpoint_every");
  auto job = std::make_unique<Job>();
  const json name = request.value("name", json()), every = request.value("checkpoint_every", json(10));
  if (!name.is_string() || !std::regex_match(name.get<std::string>(), std::regex("[a-z0-9-]{1,64}")))
    throw bad("name is " + name.dump() + "; give 1 to 64 of a-z, 0-9 and -");
  if (!every.is_number_integer() || every < 1 || every > kMostSteps)
    throw bad("checkpoint_every is " + every.dump() + "; give a number of steps, at most " +
              std::to_string(kMostSteps));
  job->config = request.value("config", json());
  if (!job->config.is_object()) throw bad("config is missing, or no object");
  job->name = name;
  job->checkpoint_every = every;
  return job;
}

/// The config fields that name files and folders.
constexpr const char* kPaths[] = {"/data/path",
                                  "/init/from",
                                  "/init/base",
                                  "/adapter/from",
                                  "/objective/reference",
                                  "/teacher/from",
                                  "/checkpoint/path",
                                  "/offload/folder",
                                  "/cuda/algorithm_cache",
                                  "/telemetry/tensorboard"};
constexpr const char* kSources[] = {"/data/sources", "/data/validation_sources"};

/// Refuses a config that reads or writes anything outside of `allowed`. Links are followed.
void check_paths(const json& config, const fs::path& allowed) {
  const auto check_path = [&](const std::string& where, const json& path) {
    if (!path.is_string()) return;  // Hawser reports the error
    const fs::path real = fs::weakly_canonical(fs::absolute(path.get<std::string>()));
    const fs::path below = real.lexically_relative(allowed);
    if (below.empty() || *below.begin() == "..")
      throw Refused(
          400, "NOT_ALLOWED",
          where + ": " + path.dump() + " is not below " + allowed.string() + ", the folder of --root");
  };
  const auto value_at = [](const json& tree, const std::string& pointer) {
    const json::json_pointer at(pointer);
    return tree.is_object() && tree.contains(at) ? tree.at(at) : json();
  };
  for (const char* where : kPaths) check_path(where, value_at(config, where));
  for (const char* where : kSources)
    for (const json& source : value_at(config, where))
      check_path(std::string(where) + "/path", value_at(source, "/path"));
}

/// Refuses a config that cannot be trained, and reports all its problems.
void check(Job* job) {
  try {
    hawser::Config config = hawser::Config::parse(job->config.dump());
    config.set("/checkpoint/every", std::to_string(job->checkpoint_every));
    const json problems = parse_json(config.validate());
    std::string text;
    for (const json& problem : problems)
      text += (text.empty() ? "" : "\n") + problem.at("pointer").get<std::string>() + ": " +
              problem.at("message").get<std::string>() + "; " + problem.at("fix").get<std::string>();
    if (!problems.empty())
      throw Refused(400, error_json("HWS_CONFIG_INVALID", text, {{"problems", problems}}));
    job->total_steps = parse_json(config.serialize(hawser::Format::kResolved)).at("train").at("steps");
  } catch (const hawser::Error& error) {
    throw Refused(400, error_json(error));
  }
}

}  // namespace

Jobs::Jobs(const fs::path& folder, const fs::path& allowed)
    : folder_(fs::absolute(folder)), allowed_(allowed.empty() ? allowed : fs::canonical(allowed)) {
  fs::create_directories(folder_);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (!fs::exists(entry.path() / "job.json")) continue;
    auto job = std::make_unique<Job>();
    restore(entry.path(), job.get());
    jobs_[job->name] = std::move(job);
  }
  worker_ = std::thread([this] { work(); });
}

void Jobs::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

// ---- requests

json Jobs::add(const std::string& body) {
  std::unique_ptr<Job> job = parse_request(body);
  if (!allowed_.empty()) check_paths(job->config, allowed_);
  check(job.get());
  const std::lock_guard lock(mutex_);
  job->folder = folder_ / job->name;
  if (jobs_.contains(job->name) || fs::exists(job->folder))
    throw Refused(409, "CONFLICT", "there is a job \"" + job->name + "\" already");
  for (const auto& [name, other] : jobs_) job->number = std::max(job->number, other->number + 1);
  try {
    fs::create_directory(job->folder);
    store(*job);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(job->folder, ignored);
    throw Refused(507, "DISK_FULL", error.what());
  }
  const json answer = {{"name", job->name}, {"state", job->state}};
  jobs_[job->name] = std::move(job);
  changed_.notify_all();
  return answer;
}

Job& Jobs::find(const std::string& name) const {
  const auto at = jobs_.find(name);
  if (at == jobs_.end()) throw Refused(404, "NOT_FOUND", "there is no job \"" + name + "\"");
  return *at->second;
}

json Jobs::state_of(const Job& job) const {
  json state = {{"name", job.name}, {"state", job.state},
                {"step", job.step}, {"total_steps", job.total_steps},
                {"loss", job.loss}, {"error", job.error}};
  if (job.engine != nullptr) {
    const hawser::Progress now = job.engine->progress();
    state["step"] = now.step;
    if (std::isfinite(now.loss)) state["loss"] = now.loss;
  }
  return state;
}

json Jobs::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Job*> all;
  for (const auto& [name, job] : jobs_) all.push_back(job.get());
  std::sort(all.begin(), all.end(), [](const Job* a, const Job* b) { return a->number < b->number; });
  json states = json::array();
  for (const Job* job : all) states.push_back(state_of(*job));
  return {{"jobs", states}};
}

json Jobs::get(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return state_of(find(name));
}

json Jobs::cancel(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Job& job = find(name);
  if (job.ended()) throw Refused(409, "CONFLICT", "the job \"" + name + "\" has ended: it is " + job.state);
  job.cancel = true;  // the worker checks this after each step
  if (job.state == "queued") {
    job.state = "cancelled";
    store(job);
    changed_.notify_all();
  }
  return {{"name", name}, {"state", job.state}};
}

Jobs::NextRows Jobs::rows(const std::string& name, std::uintmax_t from) const {
  std::unique_lock lock(mutex_);
  const Job& job = find(name);
  changed_.wait_for(lock, std::chrono::milliseconds(500),
                    [&] { return job.row_bytes > from || job.ended() || stop_; });
  const std::uintmax_t bytes = job.row_bytes;
  if (bytes <= from) return {"", job.ended() || stop_};
  lock.unlock();
  std::ifstream file(job.folder / "metrics.jsonl", std::ios::binary);
  std::string text(std::min<std::uintmax_t>(bytes - from, 1 << 16), '\0');
  file.seekg(static_cast<std::streamoff>(from));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return {text, text.empty()};
}

json Jobs::model(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const Job& job = find(name);
  if (job.state != "done")
    throw Refused(409, "CONFLICT", "the job \"" + name + "\" is " + job.state + ", not done");
  json files = json::array();
  for (const fs::directory_entry& entry : fs::directory_iterator(job.folder / "model"))
    files.push_back({{"name", entry.path().filename()}, {"bytes", entry.file_size()}});
  return {{"files", files}};
}

fs::path Jobs::model_file(const std::string& name, const std::string& file) const {
  const json files = model(name).at("files");
  for (const json& entry : files)
    if (entry.at("name") == file) return folder_ / name / "model" / file;
  throw Refused(404, "NOT_FOUND", "the model of \"" + name + "\" has no file \"" + file + "\"");
}

// ---- the worker

void Jobs::work() {
  while (Job* job = next()) run(job);
}

/// Waits for the queued job that arrived first, and returns it; null if the service is stopping.
Job* Jobs::next() {
  std::unique_lock lock(mutex_);
  Job* first = nullptr;
  changed_.wait(lock, [&] {
    first = nullptr;
    for (const auto& [name, job] : jobs_)
      if (job->state == "queued" && (first == nullptr || job->number < first->number)) first = job.get();
    return stop_ || first != nullptr;
  });
  if (stop_) return nullptr;
  first->state = "running";
  return first;
}

void Jobs::run(Job* job) {
  try {
    store(*job);
    train(job);
    end(job, job->cancel ? "cancelled" : "done", nullptr);
  } catch (const hawser::Cancelled&) {
    end(job, job->cancel ? "cancelled" : "running", nullptr);
  } catch (const hawser::Error& error) {
    end(job, "failed", error_json(error));
  } catch (const std::exception& error) {
    end(job, "failed", error_json("INTERNAL", error.what()));
  }
}

/// Trains a job from its newest checkpoint, if it has one, and exports the model.
void Jobs::train(Job* job) {
  hawser::set_thread_interrupt([&] { return stop_ || job->cancel; });
  const fs::path checkpoints = job->folder / "checkpoints", model = job->folder / "model";
  hawser::Config config = hawser::Config::parse(job->config.dump());
  config.set("/checkpoint/path", json(checkpoints.string()).dump());
  config.set("/checkpoint/every", std::to_string(job->checkpoint_every));
  hawser::Engine engine(config);
  try {
    if (fs::exists(checkpoints)) engine.load_latest(checkpoints);
  } catch (const hawser::NotFound&) {  // the job has no checkpoint yet
  }
  json loss;
  Rows rows(*job, engine.progress().step, &loss);
  {
    const std::lock_guard lock(mutex_);
    job->loss = loss;
    job->row_bytes = rows.bytes();
  }
  follow(job, &engine);
  const std::shared_ptr<void> until_the_end(nullptr, [&](void*) { follow(job, nullptr); });
  engine.train([&](const hawser::TrainRecord& record) {
    rows.append(record);
    const std::lock_guard lock(mutex_);
    job->row_bytes = rows.bytes();
    changed_.notify_all();
  });
  fs::remove_all(model);  // left by a service that was killed
  engine.export_to(model);
}

/// Sets the engine whose progress the job reports from now on. With null, the job keeps its last progress.
void Jobs::follow(Job* job, const hawser::Engine* engine) {
  const std::lock_guard lock(mutex_);
  const json last = state_of(*job);
  job->step = last.at("step");
  job->loss = last.at("loss");
  job->engine = engine;
}

void Jobs::end(Job* job, const std::string& state, json error) {
  const std::lock_guard lock(mutex_);
  job->state = state;
  job->error = std::move(error);
  try {
    store(*job);
  } catch (const hawser::Error&) {  // the disk is full: the next start runs the job again
  }
  changed_.notify_all();
}

}  // namespace service
