// Reads a cluster file. README.md lists the fields.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/object_reader.h"
#include "engine/comm/ledger.h"
#include "engine/nn/kernel_work.h"

namespace hawser::cluster {
namespace {

constexpr std::pair<const char*, DType> kTypes[] = {
    {"fp32", DType::kF32}, {"bf16", DType::kBf16}, {"fp16", DType::kF16}};

std::optional<DType> type_of(ObjectReader* reader) {
  const std::string name = reader->text("type");
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  if (!name.empty())
    reader->problem("type", fmt::format("is {}", config::quote(name)), "use fp32, bf16 or fp16");
  return {};
}

/// Returns the range of rates of a type: at most its peak, if both the type and the peak are known.
Range up_to_peak(const DeviceRates& device, std::optional<DType> type) {
  const double peak = type ? device.peak(*type) : 0;
  return peak > 0 ? Range{0, peak} : Range{};
}

void read_peaks(ObjectReader reader, DeviceRates* device) {
  device->peak_flops[DType::kF32] = reader.sourced("fp32");
  for (const auto& [name, type] : kTypes)
    if (type != DType::kF32)
      if (const double peak = reader.sourced_if(name); peak > 0) device->peak_flops[type] = peak;
  reader.finish();
}

void read_matmul(ObjectReader reader, DeviceRates* device) {
  device->matmul.efficiency = reader.sourced("efficiency", {0, 1});
  if (reader.has("tile_m") || reader.has("tile_n") || reader.has("units")) {
    device->matmul.tile_m = reader.integer("tile_m");
    device->matmul.tile_n = reader.integer("tile_n");
    device->matmul.units = reader.integer("units");
  }
  if (reader.has("points"))
    for (ObjectReader& item : reader.list("points", 1)) {
      MatmulPoint p;
      const std::optional<DType> type = type_of(&item);
      p.type = type.value_or(DType::kF32);
      p.m = item.integer("m"), p.n = item.integer("n"), p.k = item.integer("k");
      p.flops_per_second = item.number("flops_per_second", up_to_peak(*device, type));
      item.text("source");
      item.finish();
      device->matmul_points.push_back(p);
    }
  reader.finish();
}

std::vector<AttentionPoint> read_attention(ObjectReader* reader, const char* key, const DeviceRates& device) {
  std::vector<AttentionPoint> points;
  for (ObjectReader& item : reader->list(key, 1)) {
    AttentionPoint p;
    const std::optional<DType> type = type_of(&item);
    p.type = type.value_or(DType::kF32);
    p.length = item.integer("length"), p.head_dim = item.integer("head_dim");
    p.flops_per_second = item.number("flops_per_second", up_to_peak(device, type));
    item.text("source");
    item.finish();
    points.push_back(p);
  }
  return points;
}

bool is_kernel(const std::string& name) {
  for (int k = 0; k < static_cast<int>(nn::Kernel::kCount); ++k)
    if (name == nn::kernel_name(static_cast<nn::Kernel>(k))) return true;
  return false;
}

void read_memory(ObjectReader reader, DeviceRates* device) {
  device->bytes_per_second = reader.sourced("bytes_per_second");
  device->efficiency = reader.sourced("efficiency", {0, 1});
  if (reader.has("kernels")) {
    ObjectReader kernels = reader.object("kernels");
    for (const std::string& name : kernels.keys()) {
      const double most = device->bytes_per_second > 0 ? device->bytes_per_second : 1e300;
      device->kernels[name] = kernels.sourced(name.c_str(), {0, most});
      if (!is_kernel(name))
        kernels.problem(name, "is not the name of a kernel", "`hawser plan` lists the kernels of a step");
    }
  }
  reader.finish();
}

void read_device(ObjectReader reader, DeviceRates* device) {
  const std::string kind = reader.text("kind");
  device->kind = kind == "cpu" ? device::Kind::kCpu : device::Kind::kCuda;
  if (!kind.empty() && kind != "cpu" && kind != "cuda")
    reader.problem("kind", fmt::format("is {}", config::quote(kind)), "use cpu or cuda");
  device->memory_bytes = reader.sourced("memory_bytes");
  read_peaks(reader.object("peak_flops"), device);
  read_matmul(reader.object("matmul"), device);
  ObjectReader attention = reader.object("attention");
  device->attention_forward = read_attention(&attention, "forward", *device);
  device->attention_backward = read_attention(&attention, "backward", *device);
  attention.finish();
  read_memory(reader.object("memory"), device);
  device->launch_seconds = reader.sourced("launch_seconds", {0, 1, true});
  reader.finish();
}

void read_efficiency(ObjectReader reader, NetworkLevel* level) {
  for (const std::string& name : reader.keys()) {
    level->efficiency[name] = reader.sourced(name.c_str(), {0, 1});
    bool known = false;
    for (int32_t o = 0; o < static_cast<int32_t>(comm::Operation::kCount); ++o)
      known |= name == comm::operation_name(static_cast<comm::Operation>(o));
    if (!known)
      reader.problem(name, "is not an operation",
                     "use all_gather, reduce_scatter, all_reduce, all_to_all or send");
  }
}

void read_network(ObjectReader* reader, std::vector<NetworkLevel>* levels) {
  std::vector<ObjectReader> list = reader->list("network", 1);
  int64_t inner = 1;
  for (size_t l = 0; l < list.size(); ++l) {
    ObjectReader& item = list[l];
    NetworkLevel level;
    level.name = item.text("name");
    const bool last = l + 1 == list.size();
    if (last && item.has("ranks"))
      item.problem("ranks", "is set for the last level", "remove it: the last level connects all ranks");
    level.ranks = last ? item.integer_if("ranks") * 0 : item.integer("ranks");
    if (!last && level.ranks > 0 && (level.ranks <= inner || level.ranks % inner != 0))
      item.problem("ranks", fmt::format("is {}", level.ranks),
                   fmt::format("write a larger multiple of {}, which the level below has", inner));
    if (level.ranks > 0) inner = level.ranks;
    level.bytes_per_second = item.sourced("bytes_per_second");
    level.latency = item.sourced("latency", {0, 1, true});
    if (item.has("efficiency")) read_efficiency(item.object("efficiency"), &level);
    item.finish();
    levels->push_back(std::move(level));
  }
  if (levels->size() > parallel::kMostLevels)
    reader->problem("network", fmt::format("has {} levels", levels->size()),
                    fmt::format("describe at most {}", parallel::kMostLevels));
}

void read_host(ObjectReader host, ObjectReader disk, HostRates* rates) {
  rates->to_device = host.sourced_if("to_device_bytes_per_second");
  rates->from_device = host.sourced_if("from_device_bytes_per_second");
  rates->update = host.sourced_if("update_bytes_per_second");
  host.finish();
  rates->disk_read = disk.sourced_if("read_bytes_per_second");
  rates->disk_write = disk.sourced_if("write_bytes_per_second");
  disk.finish();
}

[[noreturn]] void refuse(const std::vector<config::Problem>& problems) {
  std::string message = "the cluster is not valid:";
  OrderedJson list = OrderedJson::array();
  for (const config::Problem& p : problems) {
    message += fmt::format("\n{}: {}; {}", p.pointer.empty() ? "/" : p.pointer, p.message, p.fix);
    list.push_back({{"pointer", p.pointer}, {"message", p.message}, {"fix", p.fix}});
  }
  const OrderedJson details = {{"problems", std::move(list)}};
  throw Error(Code::kInvalidArgument, std::move(message),
              details.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

OrderedJson parsed(std::string_view json) {
  try {
    return parse_json<OrderedJson>(json);
  } catch (const OrderedJson::exception&) {
    fail(Code::kInvalidArgument, "the cluster is not valid: it is not valid JSON at byte {}",
         json_error_at(json));
  }
}

}  // namespace

Cluster read_cluster(std::string_view json) {
  const OrderedJson tree = parsed(json);
  config::ProblemList problems;
  if (!tree.is_object()) problems.add("", "is not an object", "write {...}");
  ObjectReader reader(tree.is_object() ? &tree : nullptr, "", &problems);
  Cluster cluster;
  cluster.name = reader.text("name");
  cluster.ranks = reader.integer_if("ranks");
  read_device(reader.object("device"), &cluster.device);
  read_network(&reader, &cluster.levels);
  read_host(reader.object_if("host"), reader.object_if("disk"), &cluster.host);
  if (reader.has("stack")) read_stack(reader.object("stack"), &cluster.stack);
  reader.finish();
  if (!problems.empty()) refuse(problems.take());
  return cluster;
}

}  // namespace hawser::cluster
