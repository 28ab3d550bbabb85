#include "bindings/cli/text/tokenizer_command.h"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {
namespace {

struct TokenizerOptions {
  std::string model, file, output;
  std::vector<std::string> files, specials;
  int64_t vocab_size = 0;
  bool special = false, json = false;
};

/// Opens a tokenizer.json, a folder that has one, or a model that find_model finds.
Tokenizer open_tokenizer(const std::string& name) {
  const std::string model = existing_model(name);
  const bool itself = !is_folder(model) || exists(model + "/tokenizer.json");
  const std::string path = itself ? model : find_model(model).path;
  return make<Tokenizer>(hws_tokenizer_open, path.c_str());
}

/// Returns the text of a file, or of standard input if no file is given.
std::string input(const std::string& file) {
  if (!file.empty()) return read_file(file);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

int train(const TokenizerOptions& o) {
  const InterruptScope interrupt;
  const std::string files = nlohmann::json(o.files).dump(), specials = nlohmann::json(o.specials).dump();
  check(hws_tokenizer_train(files.c_str(), o.vocab_size, specials.c_str(), o.output.c_str()));
  const Tokenizer tokenizer = make<Tokenizer>(hws_tokenizer_open, o.output.c_str());
  const auto info = parse_json(text_of(hws_tokenizer_info, tokenizer.get()));
  output().print("%s: %lld tokens\n", o.output.c_str(), info.at("vocab_size").get<long long>());
  return kExitOk;
}

int encode(const TokenizerOptions& o) {
  const Tokenizer tokenizer = open_tokenizer(o.model);
  const std::string text = input(o.file);
  const uint32_t flags = o.special ? HWS_TEXT_ADD_SPECIAL : 0;
  const std::vector<int32_t> ids = cli::encode(tokenizer.get(), text, flags);
  if (o.json) {
    output().line(nlohmann::json(ids).dump());
    return kExitOk;
  }
  std::string line;
  for (const int32_t id : ids) line += (line.empty() ? "" : ",") + std::to_string(id);
  output().line(line);
  return kExitOk;
}

int decode(const TokenizerOptions& o) {
  const Tokenizer tokenizer = open_tokenizer(o.model);
  std::string text = input(o.file);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (text.starts_with("[") && text.ends_with("]")) text = text.substr(1, text.size() - 2);
  const std::vector<int32_t> ids =
      text.empty() ? std::vector<int32_t>() : parse_ids(o.file.empty() ? "the input" : o.file + ":", text);
  output().write(text_of(hws_tokenizer_decode, tokenizer.get(), ids.data(), ids.size(),
                         o.special ? 0u : static_cast<uint32_t>(HWS_TEXT_SKIP_SPECIAL)));
  return kExitOk;
}

}  // namespace

void add_tokenizer_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<TokenizerOptions>();
  CLI::App* sub =
      app->add_subcommand("tokenizer", "Turn text into token ids and back, or learn a vocabulary");
  sub->require_subcommand(1);

  CLI::App* learn = sub->add_subcommand("train", "Learn a byte-level BPE from text files");
  learn->add_option("files", o->files, "UTF-8 text")->type_name("FILE")->required();
  learn->add_option("--vocab-size", o->vocab_size, "Most tokens of the vocabulary")
      ->check(whole_number(1))
      ->required();
  learn->add_option("--special", o->specials, "Special token, such as \"<|endoftext|>\" (repeatable)")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  learn->add_option("-o,--output", o->output, "New tokenizer.json to write")->type_name("FILE")->required();
  learn->callback([=] { *action = [o] { return train(*o); }; });

  const char* model = "tokenizer.json, model folder, checkpoint or run folder";
  CLI::App* to_ids = sub->add_subcommand("encode", "Print the token ids of a text");
  to_ids->add_option("model", o->model, model)->type_name("MODEL")->required();
  to_ids->add_option("file", o->file, "Text file (default: standard input)")->type_name("FILE");
  to_ids->add_flag("--special", o->special, "Add the special tokens that begin or end a text");
  to_ids->add_flag("--json", o->json, "Print a JSON array");
  to_ids->callback([=] { *action = [o] { return encode(*o); }; });

  CLI::App* to_text = sub->add_subcommand("decode", "Print the text of token ids: a JSON array, or 1,2,3");
  to_text->add_option("model", o->model, model)->type_name("MODEL")->required();
  to_text->add_option("file", o->file, "File of ids (default: standard input)")->type_name("FILE");
  to_text->add_flag("--special", o->special, "Print special tokens, too");
  to_text->callback([=] { *action = [o] { return decode(*o); }; });
}

}  // namespace hawser::cli
