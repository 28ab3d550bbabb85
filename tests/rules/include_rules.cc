// Implements include_rules.h. Includes may go down the layers, or along the few sideways edges listed here.
#include "tests/rules/include_rules.h"

#include <array>
#include <utility>

#include "tests/rules/source_tree.h"

namespace hawser::rules {
namespace {

struct Layer {
  std::string_view folder;
  int height;
};

constexpr std::array kLayers = {
    Layer{"kernels", 0},         Layer{"engine/base", 0},     Layer{"engine/device", 1},
    Layer{"engine/comm", 2},     Layer{"engine/mesh", 2},     Layer{"engine/nn", 3},
    Layer{"engine/plan", 3},     Layer{"engine/data", 3},     Layer{"engine/text", 3},
    Layer{"engine/optim", 4},    Layer{"engine/parallel", 4}, Layer{"engine/config", 5},
    Layer{"engine/cluster", 6},  Layer{"engine/execute", 6},  Layer{"engine/checkpoint", 6},
    Layer{"engine/assembly", 7}, Layer{"engine/ranks", 8},    Layer{"engine/prepare", 8},
    Layer{"engine/state", 9},    Layer{"engine/save", 10},    Layer{"engine/report", 11},
    Layer{"engine/run", 12},     Layer{"engine/proof", 13},   Layer{"capi", 14}};

using Edge = std::pair<std::string_view, std::string_view>;
constexpr std::array kSideways = {Edge{"kernels", "engine/base"}, Edge{"engine/comm", "engine/mesh"},
                                  Edge{"engine/parallel", "engine/optim"},
                                  Edge{"engine/execute", "engine/checkpoint"}};

/// The folders of programs that use the library like its users, with only the public header.
constexpr std::array<std::string_view, 4> kClients = {"bindings", "examples", "tests/golden", "tests/bench"};
constexpr std::string_view kPublicHeader = "capi/include/hawser.h";

const Layer* layer_of(std::string_view path) {
  for (const Layer& layer : kLayers) {
    if (is_below(path, layer.folder)) return &layer;
  }
  return nullptr;
}

}  // namespace

std::string include_problem(std::string_view path, std::string_view included) {
  if (included.find("..") != std::string_view::npos) return "a path from the root, not a relative one";
  for (std::string_view client : kClients) {
    if (!is_below(path, client)) continue;
    const bool fine = included == kPublicHeader || is_below(included, client) ||
                      included.find('/') == std::string_view::npos ||
                      (client == "tests/bench" && is_below(included, "tests/golden"));
    return fine ? ""
                : std::string(client) + " includes only " + std::string(kPublicHeader) + " and its own files";
  }
  const Layer* from = layer_of(path);
  if (from == nullptr) return "";  // tests may include anything
  const Layer* to = layer_of(included);
  if (to == nullptr) {
    return included.find('/') == std::string_view::npos ? ""
                                                        : "not in a layer below " + std::string(from->folder);
  }
  if (to->folder == from->folder) return "";
  if (from->folder == "engine/nn" && (to->folder == "engine/comm" || to->folder == "engine/parallel")) {
    return "engine/nn is math without ranks: it offers seams that engine/parallel fills";
  }
  if (from->folder == "engine/execute" && to->folder == "engine/config") {
    return "engine/execute carries out a plan: engine/assembly reads the config for it";
  }
  for (const Edge& edge : kSideways) {
    if (edge == Edge{from->folder, to->folder}) return "";
  }
  if (to->height < from->height) return "";
  return std::string(from->folder) + " (layer " + std::to_string(from->height) + ") must not include " +
         std::string(to->folder) + " (layer " + std::to_string(to->height) + ")";
}

}  // namespace hawser::rules
