// Export as a Hugging Face folder, which the process of rank 0 writes. Where it does not hold all elements,
// each tensor is gathered when its turn comes and dropped when it is written: nobody ever holds more than
// what one stored tensor is made of.
#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

/// Tensors that are whole for a while.
class Gathered {
 public:
  std::vector<float>& make_room(const nn::Parameter& p) {
    std::vector<float>& tensor = tensors_[p.name];
    tensor.resize(static_cast<size_t>(p.size));
    return tensor;
  }
  void drop() { tensors_.clear(); }

 private:
  std::map<std::string, std::vector<float>> tensors_;
};

}  // namespace

void TrainerImpl::export_hf(const std::string& folder, const std::string& dtype) const {
  saver_.wait();
  const nn::ParameterTable& table = model_.table();
  const WriteTensors write = [&](const auto& source, const auto& written) {
    checkpoint::hf::export_folder(folder, config_.model, table, source, extra_files_, dtype, written);
  };
  const bool f32 = state_type(config_) == DType::kF32;
  if (f32 && first().link().in_place() && !first().layout().state_sharded()) {
    const auto own = [&](const std::string& name) -> const float* {
      const nn::Parameter& p = table.at(name);
      return first().executor().state(p.group).weights.from(p.offset).in_place(first().link());
    };
    on_first_process([&] { return write(own, [] {}), true; });
  } else if (all_here()) {
    Gathered gathered;
    const auto gather = [&](const std::string& name) -> const float* {
      std::vector<float>& tensor = gathered.make_room(table.at(name));
      collect(TensorKind::kWeight, table.at(name), tensor.data());
      return tensor.data();
    };
    write(gather, [&] { gathered.drop(); });
  } else if (first().number() == 0) {
    export_with_others(write);
  } else {
    gather_for_export();
  }
}

/// The process of rank 0: tells the others which tensor is next, and at the end "", or what failed.
void TrainerImpl::export_with_others(const WriteTensors& write) const {
  const nn::ParameterTable& table = model_.table();
  Gathered gathered;
  const auto gather = [&](const std::string& name) -> const float* {
    std::vector<float>* tensor = nullptr;
    from_all_processes([&] {
      tensor = &gathered.make_room(table.at(name));
      return name;
    });
    collect(TensorKind::kWeight, table.at(name), tensor->data());
    return tensor->data();
  };
  try {
    write(gather, [&] { gathered.drop(); });
  } catch (const AgreedError&) {
    throw;
  } catch (...) {
    if (broken_) throw;
    const std::exception_ptr error = std::current_exception();
    from_all_processes([&]() -> std::string { std::rethrow_exception(error); });
  }
  from_all_processes([] { return std::string(); });
}

/// The others, until it has come to its end.
void TrainerImpl::gather_for_export() const {
  const nn::ParameterTable& table = model_.table();
  std::vector<float> tensor;
  const auto next = [&] {
    return from_all_processes([&] {
             for (const nn::Parameter& p : table.all())
               tensor.resize(std::max(tensor.size(), static_cast<size_t>(p.size)));
             return std::string();
           })
        .front();
  };
  for (std::string name = next(); !name.empty(); name = next())
    collect(TensorKind::kWeight, table.at(name), tensor.data());
}

}  // namespace hawser::train
