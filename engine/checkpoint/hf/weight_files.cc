#include "engine/checkpoint/hf/weight_files.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

/// Reads weight_map of the index: tensor name -> file name.
std::map<std::string, std::string> read_index(const Folder& folder, std::string* metadata) {
  const std::string where = folder.path_of(kIndexName);
  const std::string text = folder.read_file(kIndexName, kMaxJsonBytes, kLinks);
  check_json_object(text, where, Code::kCheckpointCorrupt, 32);
  const Json json = parse_json<Json>(text);
  if (!json.contains("weight_map") || !json["weight_map"].is_object() || json["weight_map"].empty())
    fail(Code::kCheckpointCorrupt, "{}: weight_map is missing, empty or not an object", where);
  if (json.contains("metadata") && json["metadata"].is_object()) *metadata = json["metadata"].dump();
  std::map<std::string, std::string> map;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>()))
      fail(Code::kCheckpointCorrupt,
           "{}: tensor {} is listed in {}, which is not a file name in the same folder", where,
           in_quotes(name), in_quotes(file.is_string() ? file.get<std::string>() : file.dump()));
    map[name] = file.get<std::string>();
  }
  return map;
}

void add_file(const Folder& folder, const std::string& name, WeightFiles* result) {
  if (!path_exists(folder.path_of(name)))
    fail(Code::kNotFound, "{} is missing, though {} names it", folder.path_of(name),
         folder.path_of(kIndexName));
  result->files.push_back(SafetensorsFile::open(folder, name, kLinks));
  result->names.push_back(name);
}

}  // namespace

WeightFiles open_weight_files(const Folder& folder) {
  WeightFiles result;
  std::map<std::string, std::string> map;
  if (folder.has_file(kSingleName, kLinks)) {
    result.files.push_back(SafetensorsFile::open(folder, kSingleName, kLinks));
    result.names.push_back(kSingleName);
  } else if (folder.has_file(kIndexName, kLinks)) {
    result.sharded = true;
    map = read_index(folder, &result.index_metadata);
    std::map<std::string, bool> files;
    for (const auto& [name, file] : map) files[file] = true;
    for (const auto& [file, unused] : files) add_file(folder, file, &result);
  } else {
    fail(Code::kNotFound, "{} has neither {} nor {}; weights in other formats are not read", folder.path(),
         kSingleName, kIndexName);
  }
  for (size_t i = 0; i < result.files.size(); ++i)
    for (const TensorInfo& info : result.files[i].tensors()) {
      const auto [other, fresh] = result.tensors.emplace(info.name, WeightFiles::TensorLocation{i, &info});
      const auto listed = map.find(info.name);
      if (!fresh || (listed != map.end() && listed->second != result.names[i]))
        fail(Code::kCheckpointCorrupt, "{} has the tensor {}, but the index or another file has it in {}",
             result.files[i].path(), in_quotes(info.name),
             fresh ? listed->second : result.names[other->second.file]);
    }
  for (const auto& [name, file] : map)
    if (result.tensors.count(name) == 0)
      fail(Code::kCheckpointCorrupt, "{} has no tensor {}, though the index lists it there",
           folder.path_of(file), in_quotes(name));
  return result;
}

std::string index_text(const std::map<std::string, std::string>& weight_map, const std::string& metadata,
                       int64_t total_bytes) {
  Json json;
  json["metadata"] = metadata.empty() ? Json::object() : parse_json<Json>(metadata);
  json["metadata"]["total_size"] = total_bytes;
  json["weight_map"] = weight_map;
  return json.dump(2) + "\n";
}

}  // namespace hawser::checkpoint::hf
