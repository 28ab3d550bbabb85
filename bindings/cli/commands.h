// The subcommands of `hawser`: the options of each, and the function that runs it. main.cc fills in these
// structs from the command line. Each function writes its result to stdout, throws Failure on errors and
// returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/job_secret.h"

namespace hawser::cli {

/// Options that name and change a config.
struct ConfigOptions {
  std::string config;             ///< a JSON file, a preset's name, or a folder that holds a model
  std::vector<std::string> sets;  ///< /json/pointer=value, in order
  std::string data;               ///< --data FILE
  int64_t threads = 0;            ///< --threads; 0 keeps the config's
  bool lora = false;              ///< --lora: train an adapter
  bool qlora = false;             ///< --qlora: as --lora, with the frozen linears in NF4
  bool dora = false;              ///< --dora: as --lora, with magnitudes
  std::string objective;          ///< --objective, --dpo: an objective over pairs of answers
  std::string teacher;            ///< --teacher MODEL: distil from this model

  bool trains_adapter() const { return lora || qlora || dora; }
  /// True if an option sets the training method, which a run that is resumed cannot change.
  bool sets_method() const { return trains_adapter() || !objective.empty() || !teacher.empty(); }
};

/// The rank of this process, if ranks are processes. Without --comm the process holds all ranks.
struct RankOptions {
  std::string comm;  ///< HOST:PORT where rank 0 listens, or "env" for the launcher's variables
  int32_t rank = -1, world = 0;
  std::string host, network_interface;  ///< this process's address, or its network interface
  /// Number of processes of this job on this machine, which share its CPU threads; 0: unknown
  int32_t processes_here = 0;
  std::string secret_file;             ///< file with the job's secret
  bool trust_network = false;          ///< allow other addresses than the loopback without a secret
  bool without_shared_memory = false;  ///< use TCP instead of shared memory for processes on this machine
  double dead_after = 0;            ///< seconds without a heartbeat before a rank counts as dead; 0: default
  int32_t secret_fd = -1;           ///< descriptor to read the launcher's secret from, once; -1: none
  std::optional<JobSecret> secret;  ///< the secret that was read from secret_fd
  // The members below are for an elastic run.
  int32_t control = -1;     ///< descriptor to the launcher, which assigns the rank; -1: none
  int64_t meeting = 0;      ///< number of the meeting of ranks; 0: not counted
  double meet_seconds = 0;  ///< seconds for all ranks to arrive at a meeting; 0: default
  std::string folder;       ///< current folder of the run, if the launcher gave it
};

struct PrepareOptions {
  std::string model;              ///< a folder with tokenizer.json, that file, or a folder of prepared rows
  std::vector<std::string> data;  ///< files of rows
  std::string out, longer, unprinted, chat_template;
  int64_t sequence = 0, threads = 0, seed = 0, show = 0;
  bool packing = true, json = false;
  std::optional<bool> pairs;  ///< rows must (true) or must not be pairs; not set: either
};

struct TrainOptions {
  ConfigOptions config;
  std::string chat_template, longer, unprinted;  ///< as in PrepareOptions, for rows of text
  bool packing = true;
  std::string out, resume;
  bool other_data = false;  ///< continue with data other than the run was trained on
  bool profile = false;     ///< time every kernel and print a table
  bool elastic = false;     ///< begin or resume with the available ranks, and again after losing some
  RankOptions ranks;
};
int run_train(const TrainOptions& options);

struct LaunchOptions {
  int32_t processes = 0;
  std::string address;             ///< HOST:PORT of the rendezvous; "": a free loopback port
  bool elastic = false;            ///< continue without processes that are killed or stopped
  bool trust_network = false;      ///< allow running without the identity module, so without a secret
  int32_t at_least = 0;            ///< with fewer processes left, lost ones are replaced; 0: always
  std::vector<std::string> words;  ///< command line of each process: train CONFIG ...
};
/// `train` holds the parsed `words`.
int run_launch(const LaunchOptions& options, const TrainOptions& train);

int run_presets();
int run_schema();
/// Writes to stdout if `file` is "".
int run_init(const std::string& preset, const std::string& file);
/// The devices that a plan is made for, if they are others than this machine's.
struct ClusterOptions {
  std::string cluster;     ///< a file, or the name of a cluster in the library; "": this machine
  double tokens = 0;       ///< of a whole run; 0: none
  double imbalance = 1;    ///< load of the busiest rank's experts over the mean of all ranks
  std::string trace;       ///< a new file for the predicted step: JSON, or an image (.svg); "": none
  bool search = false;     ///< print the fastest layouts
  int64_t ranks = 0;       ///< of a search; 0: those of the cluster or of the config
  int32_t top = 10;        ///< layouts of a search
  bool published = false;  ///< print published runs instead
  std::string tables;      ///< of published runs: a file or a folder; "": those in the command
};
/// Prints published training runs beside their predictions. `path`: a table, or a folder of tables; "": those
/// in the command.
int run_published(const std::string& path, bool json);
int run_plan(const ConfigOptions& options, const ClusterOptions& on, bool json);
int run_prove(const ConfigOptions& options, int steps, bool json);
/// For "explain [CONFIG] [/POINTER]": moves a pointer that is the only argument from *config to *pointer. An
/// argument is a pointer if it begins with '/' and is not a file.
void order_explain_words(std::string* config, std::string* pointer);
/// Explains the defaults if the config is "", and every field if `pointer` is "".
int run_explain(const ConfigOptions& options, const std::string& pointer, bool json);
/// Shows what --comm env reads from this process's environment.
int run_explain_environment(bool json);

int run_inspect(const std::string& checkpoint, bool json);
int run_verify(const std::string& checkpoint);

struct ConvertOptions {
  std::string source, destination, dtype;
  std::vector<std::string> ignore_keys;
  bool adapter = false;  ///< write only the adapter
  bool average = false;  ///< the moving average of the weights instead of the weights
};
int run_convert(const ConvertOptions& options);

/// Shows the flight records of a failed run. `paths` are records or folders of them.
int run_flight(const std::vector<std::string>& paths, bool json);

struct DeviceOptions {
  int32_t threads = 0;
  double seconds = 0.5;
  bool json = false;
  std::string measure;  ///< a new cluster file for this host's speeds; "": print the peaks instead
};
int run_device(const DeviceOptions& options);

}  // namespace hawser::cli
