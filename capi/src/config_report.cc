// hws_config_validate, _explain and _prove_layout: they read the files that a config names, and then report
// its meaning and all of its problems.

#include "capi/src/buffer.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "engine/assembly/assemble.h"
#include "engine/base/json.h"
#include "engine/data/dataset.h"
#include "engine/proof/prove_layout.h"
#include "engine/ranks/choose_device.h"

using namespace hawser::capi;
using hawser::Code;
using hawser::Error;
using hawser::config::ConfigTree;
using json = hawser::Json;

namespace {

/// True if the error concerns the config or the files that it names, not this process.
bool is_problem(Code code) {
  switch (code) {
    case Code::kConfigInvalid:
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kPermission:
    case Code::kIo:
    case Code::kDataInvalid:
    case Code::kDataLoss:
    case Code::kFailedPrecondition:
    case Code::kUnimplemented:
    case Code::kOutOfRange:
    case Code::kCheckpointCorrupt:
    case Code::kCheckpointIncompatible:
      return true;
    default:
      return false;
  }
}

void add(json* problems, json problem) {
  for (const json& known : *problems) {
    if (known == problem) return;
  }
  problems->push_back(std::move(problem));
}

/// Adds the problems that an error reports: its list, or the error itself as one problem (at `pointer` unless
/// it names a place).
void add_error(json* problems, const Error& error, std::string pointer) {
  const json details = hawser::parse_json_or_discard<json>(error.details());
  if (details.is_object() && details.contains("problems") && details["problems"].is_array()) {
    for (const json& problem : details["problems"]) add(problems, problem);
    return;
  }
  if (details.is_object() && details.contains("pointer") && details["pointer"].is_string()) {
    pointer = details["pointer"].get<std::string>();
  }
  add(problems, {{"pointer", pointer}, {"message", error.message()}, {"fix", ""}});
}

void add_all(json* problems, const std::vector<hawser::config::Problem>& found) {
  for (const hawser::config::Problem& problem : found) {
    add(problems, {{"pointer", problem.pointer}, {"message", problem.message}, {"fix", problem.fix}});
  }
}

/// Opens the data of a config that is otherwise valid. Adds problems for files that are missing, empty or of
/// another format.
void add_data_problems(json* problems, const ConfigTree& tree) {
  const hawser::train::Assembly assembly = hawser::train::assemble(tree);
  const hawser::config::ResolvedConfig& config = assembly.config;
  if (config.data.format == hawser::config::DataFormat::kNone) return;
  try {
    hawser::data::Dataset::open(config.data, assembly.vocabulary, config.seed, config.batch.sequence,
                                config.model.vocab_size);
  } catch (const Error& error) {
    if (!is_problem(error.code())) throw;
    add_error(problems, error, "/data");
  }
}

}  // namespace

hws_status hws_config_validate(const hws_config* config, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Config> source(call, config, Access::kShared);
    json problems = json::array();
    try {
      add_all(&problems, hawser::config::validate(hawser::train::assemble_config(source->tree)));
      if (problems.empty()) add_data_problems(&problems, source->tree);
    } catch (const Error& error) {
      if (!is_problem(error.code())) throw;
      add_error(&problems, error, "");
      add_all(&problems, hawser::config::validate(source->tree));
    }
    publish_text(problems.dump(-1, ' ', false, json::error_handler_t::replace), out);
  });
}

hws_status hws_config_explain(const hws_config* config, const char* pointer, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Config> source(call, config, Access::kShared);
    const std::string_view where = call.text(pointer, "pointer");
    ConfigTree tree = source->tree;
    try {
      tree = hawser::train::assemble_config(source->tree);
    } catch (const Error& error) {
      // Values that these files would have determined stay unset; all other values can still be explained.
      if (!is_problem(error.code())) throw;
    }
    publish_text(hawser::train::explain_with_device(tree, where), out);
  });
}

hws_status hws_config_prove_layout(const hws_config* config, int32_t steps, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    if (steps < 1 || steps > 1000) call.invalid("steps", fmt::format("is {}; give 1 to 1000", steps));
    const ConfigTree tree = Use<Config>(call, config, Access::kShared)->tree;
    publish_text(hawser::train::prove_layout(tree, steps), out);
  });
}
