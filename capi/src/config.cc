// The functions hws_config_* that parse, change and write configs. config_report.cc has the reports on them.
#include "capi/src/config.h"

#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "engine/assembly/assemble.h"
#include "engine/base/json.h"
#include "engine/ranks/fit_ranks.h"

using namespace hawser::capi;
using hawser::Code;
using hawser::config::ConfigTree;

namespace {

constexpr int32_t kMostRanks = 1 << 20;  // ranks of a mesh

void publish_config(ConfigTree tree, hws_config** out) {
  publish(std::make_unique<Config>(std::move(tree)), out);
}

[[noreturn]] void invalid_format(const Call& call, int32_t format, const char* allowed) {
  call.invalid("format", fmt::format("is {}; this function takes {}", format, allowed));
}

}  // namespace

hws_status hws_config_parse(const void* data, size_t size, int32_t format, hws_config** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    call.pointer(static_cast<const char*>(data), "data");
    if (size > Call::kValueLimit) {
      call.invalid("size", fmt::format("is {}; a config has at most {} bytes", size, Call::kValueLimit));
    }
    if (format == HWS_FORMAT_JSON) {
      publish_config(ConfigTree::from_json({static_cast<const char*>(data), size}), out);
    } else if (format == HWS_FORMAT_BINARY) {
      publish_config(ConfigTree::from_binary(data, size), out);
    } else {
      invalid_format(call, format, "HWS_FORMAT_JSON and HWS_FORMAT_BINARY");
    }
  });
}

hws_status hws_config_preset(const char* name, hws_config** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_config(ConfigTree::from_preset(call.text(name, "name")), out);
  });
}

hws_status hws_config_from_model(const char* path, hws_config** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_config(hawser::train::config_from_model(call.config_path(path, "path")), out);
  });
}

hws_status hws_config_clone(const hws_config* config, hws_config** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Config> source(call, config, Access::kShared);
    publish_config(source->tree, out);
  });
}

hws_status hws_config_set(hws_config* config, const char* pointer, const char* json_value) {
  return guard(__func__, [&](const Call& call) {
    const Use<Config> target(call, config, Access::kExclusive);
    const std::string_view where = call.text(pointer, "pointer");
    target->tree.set(where, call.text(json_value, "json_value", Call::kValueLimit));
  });
}

hws_status hws_config_fit_ranks(const hws_config* config, int32_t ranks, hws_config** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    call.range(ranks, 1, kMostRanks, "ranks");
    const Use<Config> source(call, config, Access::kShared);
    publish_config(hawser::train::fit_ranks(source->tree, ranks), out);
  });
}

hws_status hws_config_serialize(const hws_config* config, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Config> source(call, config, Access::kShared);
    if (format == HWS_FORMAT_JSON) {
      publish_text(source->tree.to_json(), out);
    } else if (format == HWS_FORMAT_BINARY) {
      const std::vector<uint8_t> bytes = source->tree.to_binary();
      publish_bytes(bytes.data(), bytes.size(), out);
    } else if (format == HWS_FORMAT_RESOLVED) {
      publish_text(hawser::config::resolved_json(hawser::train::assemble_config(source->tree)), out);
    } else {
      invalid_format(call, format, "HWS_FORMAT_JSON, HWS_FORMAT_BINARY and HWS_FORMAT_RESOLVED");
    }
  });
}

hws_status hws_config_schema(int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    if (format == HWS_FORMAT_JSON) {
      publish_text(hawser::config::json_schema(), out);
    } else if (format == HWS_FORMAT_BINARY) {
      const std::vector<uint8_t> bytes = hawser::config::binary_schema();
      publish_bytes(bytes.data(), bytes.size(), out);
    } else {
      invalid_format(call, format, "HWS_FORMAT_JSON and HWS_FORMAT_BINARY");
    }
  });
}

hws_status hws_config_presets(hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::Json(hawser::config::preset_names()).dump(), out);
  });
}

void hws_config_destroy(hws_config* config) { destroy_handle(HandleType::kConfig, config); }
