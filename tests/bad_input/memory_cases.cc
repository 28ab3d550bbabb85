// Memory cases: configs whose recompute or offload contradicts itself or has no effect. They are planned,
// never run.
#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace memory_cases {

std::vector<Case> rows() {
  return {
      bad(R"({"recompute": {"policy": "half"}})", {"/recompute/policy", "half", "off"}),
      bad(R"({"recompute": {"policy": "selective", "arrays": ["qk"]}})",
          {"/recompute/arrays/0", "qk", "did you mean \"qkv\"?"}),
      bad(R"({"recompute": {"policy": "selective", "arrays": []}})",
          {"/recompute/arrays", "is empty", "\"mlp_hidden\", \"qkv\" and \"attention\""}),
      bad(R"({"recompute": {"policy": "full", "arrays": ["qkv"]}})",
          {"/recompute/arrays", "no effect", "set recompute.policy to \"selective\""}),
      bad(R"({"recompute": {"every": 3}})",
          {"/recompute/every", "no effect", "recompute.policy to \"every\""}),
      bad(R"({"mesh": {"cp": 2, "cp_mode": "ulysses"}, "recompute": {"policy": "selective", "arrays": ["qkv"]}})",
          {"/recompute/arrays", "ulysses", "name both or neither"}),
      bad(R"({"recompute": {"rows": -1}})", {"/recompute/rows", "-1", "use 0"}),
      bad(R"({"recompute": {"rows": 8}, "adapter": {"rank": 2, "dora": true}})",
          {"/recompute/rows", "is 8", "DoRA's magnitudes", "use 0, or turn adapter.dora off"}),
      bad(R"({"recompute": {"rows": 8}, "model": {"layers": 2, "moe": {"experts": 2, "width": 8, "layers": [1]}}, "moe": {"dispatch": "capacity"}})",
          {"/recompute/rows", "is 8", "\"capacity\"", "set moe.dispatch to \"dropless\""}),
      bad(R"({"recompute": {"rows": 8}, "model": {"bias": {"all": false}, "moe": {"experts": 2, "width": 8}}})",
          {"/recompute/rows", "no effect", "model.moe.layers"}),
      bad(R"({"recompute": {"compress": ["mlp_hiden"]}})",
          {"/recompute/compress/0", "mlp_hiden", "did you mean \"mlp_hidden\"?"}),
      bad(R"({"recompute": {"policy": "full", "compress": ["qkv"]}})",
          {"/recompute/compress", "\"full\" recomputes every activation", "\"selective\" or \"off\""}),
      bad(R"({"recompute": {"policy": "selective", "compress": ["mlp_hidden"]}})",
          {"/recompute/compress", "\"mlp_hidden\" is recomputed", "one of the two lists"}),
      bad(R"({"recompute": {"policy": "selective", "arrays": ["qkv"], "compress": ["attention", "qkv"]}})",
          {"/recompute/compress", "\"qkv\" is recomputed", "one of the two lists"}),
      bad(R"({"recompute": {"policy": "selective", "arrays": ["attention"], "compress": ["attention"]}})",
          {"/recompute/compress", "\"attention\" is recomputed", "one of the two lists"}),
      bad(R"({"recompute": {"policy": "selective", "arrays": ["attention"], "compress": ["qkv"]}})",
          {"/recompute/compress", "while \"attention\" is recomputed from it", "instead of recomputing it"}),
      bad(R"({"mesh": {"cp": 2, "cp_mode": "ulysses"}, "recompute": {"compress": ["attention"]}})",
          {"/recompute/compress", "ulysses", "\"ring\" or \"gather\""}),
      bad(R"({"model": {"bias": {"all": false}, "moe": {"experts": 4, "top_k": 2}}, "recompute": {"compress": ["mlp_hidden"]}})",
          {"/recompute/compress", "in a model with experts", "leave \"mlp_hidden\" out"}),
      bad(R"({"offload": {"activations": "disk"}})", {"/offload/folder", "is missing", "fast local disk"}),
      bad(R"({"offload": {"activations": "host"}})", {"/offload/activations", "no effect", "use \"disk\""}),
      bad(R"({"offload": {"optimizer": "disk"}})", {"/offload/folder", "is missing", "fast local disk"}),
      bad(R"({"offload": {"optimizer": "host"}})", {"/offload/optimizer", "no effect", "use \"disk\""}),
      bad(R"({"offload": {"parameters": "host"}})",
          {"/offload/parameters", "no effect", "use \"disk\" or \"off\""}),
      bad(R"({"offload": {"gradients": "host"}})", {"/offload/gradients", "no effect", "use \"off\""}),
      bad(R"({"device": "cuda", "offload": {"gradients": "host"}})",
          {"/offload/gradients", "needs the update on the host", "set /offload/optimizer to \"host\""}),
      bad(R"({"offload": {"optimizer": "disk", "folder": "/tmp"}, "optimizer": {"kind": "sgd"}})",
          {"/offload/optimizer", "no effect", "keeps no state", "use \"off\""}),
      bad(R"({"offload": {"folder": "/tmp"}})",
          {"/offload/folder", "no effect",
           "offload.activations to \"disk\", or offload.optimizer to \"disk\", or "
           "offload.parameters to \"disk\""}),
  };
}

}  // namespace memory_cases

Area memory_area() {
  return {"Recompute and offload", "Each row is merged into the same valid config.", memory_cases::rows()};
}

}  // namespace hawser::bad_input
