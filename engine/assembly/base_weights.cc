#include "engine/assembly/base_weights.h"

#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/config/problems.h"

namespace hawser::train {
namespace {

/// Returns an absolute path, which names the same folder whatever the working directory is.
std::string absolute(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(folder, error);
  return error ? folder : path.string();
}

}  // namespace

std::string base_of_folder(const std::string& folder, const std::map<std::string, std::string>& digests) {
  return Json{{"from", absolute(folder)}, {"tensors", digests}}.dump();
}

std::string base_of_checkpoint(const std::string& folder, const checkpoint::Reader& reader) {
  return Json{{"from", absolute(folder)}, {"digest", reader.digest()}}.dump();
}

void fail_needless_base(const std::string& from) {
  config::throw_if_any(
      {{"/init/base",
        fmt::format("applies only if init.from is an adapter checkpoint without base weights{}",
                    from.empty() ? "" : ", and " + from + " has all its weights"),
        "leave it out"}});
  HWS_CHECK(!"throws");
}

std::string find_base(const checkpoint::Reader& reader, const std::string& path, const std::string& given) {
  const Json base = parse_json<Json>(reader.description().base_json);
  if (base.empty() && given.empty()) return "";
  if (base.empty()) fail_needless_base(path);
  const std::string folder = given.empty() ? base.value("from", std::string()) : given;
  if (!checkpoint::is_checkpoint(folder) && !checkpoint::hf::is_hf_folder(folder))
    fail(Code::kNotFound,
         "checkpoint {} holds an adapter without its base weights, and {} {} has no model; set /init/base to "
         "the folder that has it",
         path, given.empty() ? "their folder" : "/init/base", folder);
  return folder;
}

std::string base_folder(const config::InitConfig& init) {
  if (!checkpoint::is_checkpoint(init.from)) return init.from;
  const auto reader = checkpoint::Reader::open(init.from);
  const std::string base = find_base(*reader, init.from, init.base);
  return base.empty() ? init.from : base;
}

void require_same_base(const checkpoint::Reader& reader, const std::string& path, const std::string& ours) {
  const Json theirs = parse_json<Json>(reader.description().base_json), here = parse_json<Json>(ours);
  std::string first;
  size_t differ = 0;
  const Json none = Json::object();
  const Json& has = here.contains("tensors") ? here.at("tensors") : none;
  for (const auto& [name, digest] : (theirs.contains("tensors") ? theirs.at("tensors") : none).items()) {
    if (has.contains(name) && has.at(name) == digest) continue;
    if (differ++ == 0) first = name;
  }
  if (differ == 0 && theirs.value("digest", "") == here.value("digest", "")) return;
  const std::string which = differ == 0 ? "" : fmt::format(" ({} of the tensors, such as {})", differ, first);
  fail(Code::kCheckpointIncompatible,
       "the adapter in checkpoint {} was trained on the weights in {}, but those in {} differ{}; give the "
       "folder that it was trained on",
       path, theirs.value("from", ""), here.value("from", ""), which);
}

}  // namespace hawser::train
