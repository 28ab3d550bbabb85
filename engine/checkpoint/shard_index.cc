#include "engine/checkpoint/shard_index.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/json.h"
#include "engine/checkpoint/json_fields.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {
namespace {

constexpr const char* kFormat = "hawser-shard-index";

void merge_tensor(int rank, const std::string& name, StoredTensor tensor, StoredTensors* tensors) {
  const auto [at, is_new] = tensors->try_emplace(name, tensor);
  if (is_new) return;
  StoredTensor& known = at->second;
  if (known.dtype != tensor.dtype || known.shape != tensor.shape)
    fail(Code::kInvalidArgument, "tensor {} is {} {} on rank {}, but {} {} on an earlier rank",
         in_quotes(name), dtype_name(tensor.dtype), shape_text(tensor.shape), rank, dtype_name(known.dtype),
         shape_text(known.shape));
  for (StoredPiece& piece : tensor.pieces) known.pieces.push_back(std::move(piece));
}

}  // namespace

std::string index_text(const ShardIndex& index) {
  Json json;
  json["format"] = kFormat;
  json["rank"] = index.rank;
  json["world"] = index.world;
  json["files"] = files_json(index.files);
  json["tensors"] = tensors_json(index.tensors);
  try {
    return json.dump();
  } catch (const Json::exception&) {
    fail(Code::kInvalidArgument, "the name of a tensor on rank {} is not valid UTF-8", index.rank);
  }
}

ShardIndex parse_index(const std::string& text, int rank, int world) {
  const std::string where = fmt::format("the index of rank {}", rank);
  const Json json = parse_within_memory(text, where);
  const JsonFields fields(json, where, "the index");
  if (fields.text("format") != kFormat) fields.corrupt("is of another format: " + fields.text("format"));
  ShardIndex index{rank, world, {}, {}};
  if (fields.integer("rank") != rank || fields.integer("world") != world)
    fail(Code::kInvalidArgument, "{} of {} belongs to rank {} of {}; give the indexes in the order of ranks",
         where, world, fields.integer("rank"), fields.integer("world"));
  index.files = parse_files(fields.object_at("files"), where);
  index.tensors = parse_tensors(fields.object_at("tensors"), index.files, where);
  return index;
}

void merge_index(ShardIndex index, StoredFiles* files, StoredTensors* tensors) {
  for (auto& [name, file] : index.files)
    if (!files->try_emplace(name, std::move(file)).second)
      fail(Code::kInvalidArgument, "rank {} and an earlier rank both wrote the file {}", index.rank,
           in_quotes(name));
  for (auto& [name, tensor] : index.tensors) merge_tensor(index.rank, name, std::move(tensor), tensors);
}

}  // namespace hawser::checkpoint
