// inspect: describes the contents of a checkpoint as JSON, for people and tools.
#include <string_view>

#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/reader.h"

namespace hawser::checkpoint {

namespace {
constexpr std::string_view kOptimizer =
    "optimizer.";  // tensors of the optimizer's state; the others are weights

OrderedJson place_json(const StoredTensor& tensor, const StoredPiece& piece) {
  if (piece.rows == 1) return {{"range", {piece.begin, piece.end}}};
  const int64_t row = piece.begin / tensor.columns(), column = piece.begin % tensor.columns();
  return {{"begin", {row, column}}, {"end", {row + piece.rows, column + piece.end - piece.begin}}};
}
}  // namespace

std::string inspect(const std::string& path) {
  const std::unique_ptr<Reader> reader = Reader::open(path);  // checks more than the manifest alone
  const Folder folder = Folder::open(path);
  const Manifest manifest = read_manifest(folder);
  OrderedJson json;
  json["format"] = "hawser-checkpoint";
  json["version"] = manifest.version();
  json["step"] = manifest.description.step;
  int64_t parameters = 0, bytes = 0, shards = 0;
  OrderedJson tensors = OrderedJson::array(), files = OrderedJson::array();
  std::map<std::string, int64_t> pieces_in;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.compare(0, kOptimizer.size(), kOptimizer) != 0) parameters += tensor.elements;
    OrderedJson pieces = OrderedJson::array();
    for (const StoredPiece& piece : tensor.pieces) {
      pieces.push_back(place_json(tensor, piece));
      pieces.back()["file"] = piece.file;
      ++pieces_in[piece.file];
    }
    tensors.push_back({{"name", name},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"pieces", std::move(pieces)}});
  }
  for (const auto& [name, file] : manifest.files) {
    bytes += file.bytes;
    files.push_back({{"name", name}, {"bytes", file.bytes}, {"digest", file.digest}});
    if (is_extra_file(name, nullptr)) continue;
    files.back()["pieces"] = pieces_in[name];
    ++shards;
  }
  json["parameters"] = parameters;
  json["bytes"] = bytes;
  json["shards"] = shards;
  json["model"] = parse_json<OrderedJson>(manifest.description.model_json);
  if (manifest.description.base_json != "{}")
    json["base"] = parse_json<OrderedJson>(manifest.description.base_json);
  json["state"] = parse_json<OrderedJson>(manifest.description.state_json);
  json["vocabulary"] = parse_json<OrderedJson>(manifest.description.vocabulary_json);
  json["data"] = parse_json<OrderedJson>(manifest.description.data_json);
  json["config"] = parse_json<OrderedJson>(manifest.description.config_json);
  json["files"] = std::move(files);
  json["tensors"] = std::move(tensors);
  return json.dump(2);
}

}  // namespace hawser::checkpoint
