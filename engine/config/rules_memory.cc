// Memory rules: refuse contradictions in the sections that trade time for memory (recompute, offload).
#include "engine/config/rules.h"

namespace hawser::config {
namespace {

bool names(const Effective& c, const char* list, std::string_view array) {
  const Value* arrays = c.find(list);
  if (arrays == nullptr) return false;
  for (const Value& item : arrays->items)
    if (item.text == array) return true;
  return false;
}
bool remakes(const Effective& c, std::string_view array) {
  if (!c.is("/recompute/policy", "selective")) return false;
  if (array == "mlp_hidden" && !c.is_given("/recompute/arrays")) return true;
  return names(c, "/recompute/arrays", array);
}
bool compresses(const Effective& c, std::string_view array) { return names(c, "/recompute/compress", array); }
/// True if /recompute/compress names an array that is recomputed, and so is never saved.
bool compresses_remade(const Effective& c, std::string_view array) {
  return compresses(c, array) && remakes(c, array);
}

constexpr const char* kOneList = "remove it from one of the two lists";

constexpr const char* kHostIsHere = "has no effect: device \"cpu\" computes in the host's memory";
constexpr const char* kDiskOrOff = "use \"disk\" or \"off\"";

constexpr Check kMemoryChecks[] = {
    {"/recompute/arrays",
     {"/recompute/policy", "/recompute/arrays"},
     [](const Effective& c) {
       return c.is("/recompute/policy", "selective") && c.is_given("/recompute/arrays") &&
              c.count("/recompute/arrays") == 0;
     },
     "is empty, so nothing is recomputed",
     "name some of \"mlp_hidden\", \"qkv\" and \"attention\", or leave it out"},
    {"/recompute/arrays",
     {"/recompute/policy", "/recompute/arrays", "/mesh/cp", "/mesh/cp_mode"},
     [](const Effective& c) {
       return c.integer("/mesh/cp") > 1 && c.is("/mesh/cp_mode", "ulysses") &&
              remakes(c, "qkv") != remakes(c, "attention");
     },
     "cp_mode \"ulysses\" exchanges queries, keys, values and outputs together, but {/recompute/arrays} "
     "names only one of \"qkv\" and \"attention\"",
     "name both or neither"},
    {"/recompute/rows",
     {"/recompute/rows", "/adapter/dora"},
     [](const Effective& c) { return c.integer("/recompute/rows") > 0 && c.flag("/adapter/dora"); },
     "is {/recompute/rows}, but the gradients of DoRA's magnitudes are sums over all rows of a micro-batch",
     "use 0, or turn adapter.dora off"},
    {"/recompute/compress",
     {"/recompute/compress", "/recompute/policy"},
     [](const Effective& c) {
       return c.count("/recompute/compress") > 0 &&
              (c.is("/recompute/policy", "full") || c.is("/recompute/policy", "every"));
     },
     "has no effect: policy {/recompute/policy} recomputes every activation, so none of these is saved",
     "remove it, or set /recompute/policy to \"selective\" or \"off\""},
    {"/recompute/compress",
     {"/recompute/compress", "/recompute/policy"},
     [](const Effective& c) { return compresses_remade(c, "mlp_hidden"); },
     "\"mlp_hidden\" is recomputed (/recompute/arrays names it or is not set), so it is never saved",
     kOneList},
    {"/recompute/compress",
     {"/recompute/compress", "/recompute/policy", "/recompute/arrays"},
     [](const Effective& c) { return compresses_remade(c, "qkv"); },
     "\"qkv\" is recomputed (it is in /recompute/arrays), so it is never saved",
     kOneList},
    {"/recompute/compress",
     {"/recompute/compress", "/recompute/policy", "/recompute/arrays"},
     [](const Effective& c) { return compresses_remade(c, "attention"); },
     "\"attention\" is recomputed (it is in /recompute/arrays), so it is never saved",
     kOneList},
    {"/recompute/compress",
     {"/recompute/compress", "/recompute/policy", "/recompute/arrays"},
     [](const Effective& c) { return compresses(c, "qkv") && remakes(c, "attention") && !remakes(c, "qkv"); },
     "\"qkv\" cannot be compressed while \"attention\" is recomputed from it: recomputing must not change a "
     "bit",
     "compress \"attention\" instead of recomputing it, or recompute \"qkv\" too instead of compressing it"},
    {"/recompute/compress",
     {"/recompute/compress", "/mesh/cp", "/mesh/cp_mode"},
     [](const Effective& c) {
       return (compresses(c, "qkv") || compresses(c, "attention")) && c.integer("/mesh/cp") > 1 &&
              c.is("/mesh/cp_mode", "ulysses");
     },
     "\"qkv\" and \"attention\" cannot be compressed: cp_mode \"ulysses\" saves both in the form in which "
     "ranks exchange them",
     "leave them out, or set /mesh/cp_mode to \"ring\" or \"gather\""},
    {"/recompute/compress",
     {"/recompute/compress", "/model/moe/experts"},
     [](const Effective& c) { return compresses(c, "mlp_hidden") && c.integer("/model/moe/experts") > 0; },
     "\"mlp_hidden\" cannot be compressed in a model with experts, whose rows are saved as they are routed",
     "leave \"mlp_hidden\" out; \"qkv\" and \"attention\" can be compressed"},
    {"/offload/folder",
     {"/offload/activations", "/offload/optimizer", "/offload/parameters"},
     [](const Effective& c) {
       return (c.is("/offload/activations", "disk") || c.is("/offload/optimizer", "disk") ||
               c.is("/offload/parameters", "disk")) &&
              !c.is_given("/offload/folder");
     },
     "is missing: each rank needs a file for what it offloads to disk",
     "give a folder on a fast local disk"},
    {"/offload/activations",
     {"/offload/activations", "/device"},
     [](const Effective& c) { return c.is("/offload/activations", "host") && c.is("/device", "cpu"); },
     kHostIsHere,
     kDiskOrOff},
    {"/offload/optimizer",
     {"/offload/optimizer", "/device"},
     [](const Effective& c) { return c.is("/offload/optimizer", "host") && c.is("/device", "cpu"); },
     kHostIsHere,
     kDiskOrOff},
    {"/offload/parameters",
     {"/offload/parameters", "/device"},
     [](const Effective& c) { return c.is("/offload/parameters", "host") && c.is("/device", "cpu"); },
     kHostIsHere,
     kDiskOrOff},
    {"/offload/gradients",
     {"/offload/gradients", "/device"},
     [](const Effective& c) { return c.is("/offload/gradients", "host") && c.is("/device", "cpu"); },
     "\"host\" has no effect: device \"cpu\" computes in the host's memory",
     "use \"off\""},
    {"/offload/gradients",
     {"/offload/gradients", "/offload/optimizer", "/device"},
     [](const Effective& c) {
       return c.is("/offload/gradients", "host") && !c.is("/offload/optimizer", "host") &&
              !c.is("/device", "cpu");
     },
     "needs the update on the host's processor, but {/offload/optimizer} is the place of the optimizer's "
     "state",
     "set /offload/optimizer to \"host\", or use \"off\""},
    {"/offload/optimizer",
     {"/offload/optimizer", "/optimizer/kind", "/optimizer/momentum", "/precision"},
     [](const Effective& c) {
       return !c.is("/offload/optimizer", "off") && c.is("/optimizer/kind", "sgd") &&
              c.number("/optimizer/momentum") == 0 && !c.is("/precision", "bf16") &&
              !c.is("/precision", "fp16") && !c.is("/precision", "fp8") && !c.has("/optimizer/average");
     },
     "has no effect: optimizer \"sgd\" without momentum keeps no state in this precision",
     "use \"off\""},
};

}  // namespace

std::span<const Check> memory_checks() { return kMemoryChecks; }

}  // namespace hawser::config
