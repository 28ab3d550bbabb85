// The subcommands of `hawser`: what each was asked, and the function that does it. main.cc fills these
// structs from the command line; each function writes its result to stdout, throws Failure for what it cannot
// do and returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/job_secret.h"

namespace hawser::cli {

/// How a config is named and changed on the command line.
struct ConfigOptions {
  std::string config;             ///< a JSON file, a preset's name, or a folder that holds a model
  std::vector<std::string> sets;  ///< /json/pointer=value, in order
  std::string data;               ///< --data FILE
  int64_t threads = 0;            ///< --threads; 0: as the config says
};

/// Which rank this process is, where ranks are processes; without --comm it holds all of them.
struct RankOptions {
  std::string comm;  ///< HOST:PORT where rank 0 listens, or "env": as the launcher's variables say
  int32_t rank = -1, world = 0;
  std::string host, network_interface;  ///< own address, or the interface that it is on
  int32_t processes_here = 0;       ///< of this job on this machine, which share its CPU threads; 0: not said
  std::string secret_file;          ///< holds the job's secret
  bool trust_network = false;       ///< go on without one on other addresses than the loopback
  double dead_after = 0;            ///< seconds without a sign of life; 0: as usual
  int32_t secret_fd = -1;           ///< descriptor from which the launcher's secret is read, once; -1: none
  std::optional<JobSecret> secret;  ///< that secret
  // Of an elastic run.
  int32_t control = -1;     ///< descriptor to the launcher that says which rank this is; -1: none
  int64_t meeting = 0;      ///< counts the meetings of ranks; 0: not counted
  double meet_seconds = 0;  ///< for all to come to one; 0: as usual
  std::string folder;       ///< of the run, if the launcher says where it is now
};

struct TrainOptions {
  ConfigOptions config;
  std::string out, resume;
  bool other_data = false;  ///< go on although the data are not those that the run was trained on
  bool profile = false;     ///< time every kernel, print where the time went
  bool elastic = false;     ///< begin or resume, on the ranks that there are, again when some are lost
  RankOptions ranks;
};
int run_train(const TrainOptions& options);

struct LaunchOptions {
  int32_t processes = 0;
  std::string address;             ///< HOST:PORT to meet at; "": a free port of the loopback
  bool elastic = false;            ///< go on without processes that are killed or stopped
  bool trust_network = false;      ///< go on without the identity module, so without a secret
  int32_t at_least = 0;            ///< processes; with fewer left, lost ones are replaced. 0: always
  std::vector<std::string> words;  ///< what each process is told: train CONFIG ...
};
/// `train`: what `words` say.
int run_launch(const LaunchOptions& options, const TrainOptions& train);

struct EvalOptions {
  std::string checkpoint, data;
  std::vector<std::string> sets;
  int64_t threads = 0, sequence = 0, max_batches = 0;
  bool json = false;
};
int run_eval(const EvalOptions& options);

struct GenerateOptions {
  std::string checkpoint, prompt, tokens;
  std::vector<std::string> sets;
  bool has_prompt = false;
  int64_t max_tokens = 200, top_k = 0, threads = 0;
  int32_t stop_token = -1;
  double temperature = 1.0, top_p = 1.0;
  uint64_t seed = 0;
};
int run_generate(const GenerateOptions& options);

int run_presets();
int run_schema();
/// file "" writes to stdout.
int run_init(const std::string& preset, const std::string& file);
int run_plan(const ConfigOptions& options, bool json);
int run_prove(const ConfigOptions& options, int steps, bool json);
/// "explain [CONFIG] [/POINTER]": a word is the pointer if it begins with '/' and names no file.
void split_explain_words(const std::vector<std::string>& words, std::string* config, std::string* pointer);
/// config "" explains the defaults; pointer "" explains every field.
int run_explain(const ConfigOptions& options, const std::string& pointer, bool json);
/// What --comm env goes by here.
int run_explain_environment(bool json);

int run_inspect(const std::string& checkpoint, bool json);
int run_verify(const std::string& checkpoint);

struct ConvertOptions {
  std::string source, destination, dtype;
  std::vector<std::string> ignore_keys;
};
int run_convert(const ConvertOptions& options);

/// Records that ranks of a failed run left, as files or folders of them.
int run_flight(const std::vector<std::string>& paths, bool json);

struct DeviceOptions {
  int32_t threads = 0;
  double seconds = 0.5;
  bool json = false;
};
int run_device(const DeviceOptions& options);

}  // namespace hawser::cli
