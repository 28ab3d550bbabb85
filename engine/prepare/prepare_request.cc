// Parses the JSON request of a preparation (prepare.h).
#include <limits>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/json_text.h"
#include "engine/prepare/prepare.h"

namespace hawser::train {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& problem) {
  throw Error(Code::kInvalidArgument, fmt::format("the request's \"{}\" {}", key, problem),
              OrderedJson{{"argument", "request"}, {"pointer", "/" + key}}.dump());
}

std::string text(const std::string& key, const OrderedJson& value) {
  if (!value.is_string() || value.get<std::string>().empty() ||
      value.get<std::string>().find('\0') != std::string::npos)
    refuse(key, fmt::format("is {}; it must be a string", value.dump()));
  return value.get<std::string>();
}

bool flag(const std::string& key, const OrderedJson& value) {
  if (!value.is_boolean()) refuse(key, fmt::format("is {}; it must be true or false", value.dump()));
  return value.get<bool>();
}

int64_t number(const std::string& key, const OrderedJson& value, int64_t least, int64_t most) {
  const bool whole = value.is_number_integer() &&
                     !(value.is_number_unsigned() &&
                       value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!whole || value.get<int64_t>() < least || value.get<int64_t>() > most)
    refuse(key, fmt::format("is {}; it must be a number from {} to {}", value.dump(), least, most));
  return value.get<int64_t>();
}

std::vector<std::string> texts(const std::string& key, const OrderedJson& value) {
  if (!value.is_array() || value.empty())
    refuse(key, fmt::format("is {}; it must be an array of at least one path", value.dump()));
  std::vector<std::string> list;
  for (const OrderedJson& item : value) list.push_back(text(key, item));
  return list;
}

void set(PrepareRequest* request, const std::string& key, const OrderedJson& value) {
  constexpr int64_t kMostSequence = 16777216;
  if (key == "model") {
    request->model = text(key, value);
  } else if (key == "files") {
    request->files = texts(key, value);
  } else if (key == "out") {
    request->out = text(key, value);
  } else if (key == "sequence") {
    request->sequence = number(key, value, 2, kMostSequence);
  } else if (key == "long") {
    const std::string choice = text(key, value);
    if (choice != "cut" && choice != "drop")
      refuse(key, fmt::format("is \"{}\"; use \"cut\" or \"drop\"", choice));
    request->drop_long = choice == "drop";
  } else if (key == "unprinted") {
    const std::string choice = text(key, value);
    if (choice != "refuse" && choice != "drop")
      refuse(key, fmt::format("is \"{}\"; use \"refuse\" or \"drop\"", choice));
    request->drop_unprinted = choice == "drop";
  } else if (key == "packing") {
    request->packing = flag(key, value);
  } else if (key == "pairs") {
    request->pairs = flag(key, value);
  } else if (key == "template") {
    request->chat_template = text(key, value);
  } else if (key == "threads") {
    request->threads = static_cast<int32_t>(number(key, value, 0, 4096));
  } else if (key == "seed") {
    request->seed = static_cast<uint64_t>(number(key, value, 0, std::numeric_limits<int64_t>::max()));
  } else {
    refuse(key,
           "is not a known key; known keys: model, files, out, sequence, long, unprinted, packing, pairs, "
           "template, threads, seed");
  }
}

}  // namespace

PrepareRequest parse_prepare_request(std::string_view json) {
  checkpoint::check_json_object(json, "the request", Code::kInvalidArgument);
  const OrderedJson root = parse_json<OrderedJson>(json);
  PrepareRequest request;
  for (const auto& [key, value] : root.items()) set(&request, key, value);
  for (const char* key : {"model", "files", "out", "sequence"})
    if (!root.contains(key)) refuse(key, "is missing");
  return request;
}

}  // namespace hawser::train
