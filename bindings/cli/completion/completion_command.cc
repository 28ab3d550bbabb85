#include "bindings/cli/completion/completion_command.h"

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/completion/scripts.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Appends the pointer of every field below `node`, whatever the nesting around them.
void add_pointers(const ordered_json& node, std::vector<std::string>* pointers) {
  if (node.is_object() && node.contains("pointer")) {
    pointers->push_back(node["pointer"].get<std::string>());
  } else if (node.is_structured()) {
    for (const auto& child : node) add_pointers(child, pointers);
  }
}

KnownWords known_words() {
  KnownWords words;
  for (const auto& name : parse_json(text_of(hws_config_presets)))
    words.presets.push_back(name.get<std::string>());
  const Config config =
      make<Config>(hws_config_parse, static_cast<const void*>("{}"), size_t{2}, HWS_FORMAT_JSON);
  add_pointers(parse_json(text_of(hws_config_explain, static_cast<const hws_config*>(config.get()), "")),
               &words.pointers);
  return words;
}

int print_script(const CLI::App& app, const std::string& shell) {
  const Command root = command_tree(app, known_words(), "train");
  output().write(shell == "bash" ? bash_script(root) : shell == "zsh" ? zsh_script(root) : fish_script(root));
  return kExitOk;
}

/// Writes what an installation has below its share/: the scripts where each shell looks for them, and the
/// pages.
int write_share(const CLI::App& app, const std::string& folder) {
  const Command root = command_tree(app, known_words(), "train");
  std::map<std::string, std::string> files = {{"bash-completion/completions/hawser", bash_script(root)},
                                              {"zsh/site-functions/_hawser", zsh_script(root)},
                                              {"fish/vendor_completions.d/hawser.fish", fish_script(root)}};
  for (const auto& [name, page] : manual_pages(root, hws_library_version())) files["man/man1/" + name] = page;
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    replace_file(path, text);
  }
  return kExitOk;
}

}  // namespace

void add_completion_command(CLI::App* app, std::function<int()>* action) {
  CLI::App* sub = app->add_subcommand("completion", "Print a completion script for a shell");
  auto shell = std::make_shared<std::string>(), share = std::make_shared<std::string>();
  sub->add_option("shell", *shell, "The shell, as in: source <(hawser completion bash)")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->add_option("--share", *share)->group("");  // for the build
  sub->callback([=] {
    if (shell->empty() == share->empty()) throw CLI::RequiredError("shell (bash, zsh or fish)");
    *action = [=] { return share->empty() ? print_script(*app, *shell) : write_share(*app, *share); };
  });
}

}  // namespace hawser::cli
