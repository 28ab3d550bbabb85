#include "engine/save/export.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/gguf/export_adapter.h"
#include "engine/checkpoint/gguf/export_file.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/hf/tokenizer_files.h"
#include "engine/save/merged_weights.h"

namespace hawser::train {
namespace {

/// Full tensors gathered from all ranks. Each is kept until it is written completely, because tensors of
/// experts are written in slices.
class Gathered {
 public:
  /// Returns null if the tensor has not been gathered.
  const float* find(const std::string& name) const {
    const auto tensor = tensors_.find(name);
    return tensor == tensors_.end() ? nullptr : tensor->second.data();
  }
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

void Export::model_to(const std::string& path, const std::string& dtype) const {
  const nn::ParameterTable& table = ranks_.table();
  checkpoint::hf::ExtraFiles extra = progress_.extra_files;
  std::erase_if(extra, [](const auto& file) { return checkpoint::hf::is_adapter_file(file.first); });
  const data::Vocabulary& vocabulary = ranks_.assembly().vocabulary;
  if (vocabulary.kind() != data::VocabularyKind::kNone && vocabulary.tokenizer() == nullptr)
    checkpoint::hf::put_tokenizer(vocabulary, ranks_.config().model.context, &extra);
  from_weights([&](const auto& source, const auto& written) {
    MergedWeights merged(table, source);
    const bool gguf = checkpoint::gguf::is_gguf_path(path);
    const auto write = gguf ? checkpoint::gguf::export_file : checkpoint::hf::export_folder;
    write(
        path, ranks_.config().model, table, [&](const std::string& name) { return merged.find(name); }, extra,
        dtype,
        [&] {
          merged.drop();
          written();
        });
  });
}

void Export::adapter_to(const std::string& path) const {
  const Assembly& assembly = ranks_.assembly();
  const nn::ModelConfig& model = ranks_.config().model;
  if (!model.adapter.on())
    fail(Code::kFailedPrecondition, "the model has no adapter (/adapter/rank): there is nothing to export");
  if (assembly.family.empty())
    fail(Code::kFailedPrecondition, "no Hugging Face family that Hawser knows can express this model ({})",
         checkpoint::hf::obstacles(model));
  const std::string from = parse_json<Json>(progress_.base_json).value("from", std::string());
  const std::string base = !from.empty() && checkpoint::hf::is_hf_folder(from) ? from : "";
  from_weights([&](const auto& source, const auto& written) {
    if (checkpoint::gguf::is_gguf_path(path)) {
      checkpoint::gguf::export_adapter(path, assembly.family, model, ranks_.table(), source, written);
      return;
    }
    checkpoint::hf::export_adapter(path, assembly.family, model, ranks_.table(), source,
                                   progress_.extra_files, base, written);
  });
}

/// Calls `write` in the process of rank 0 with a source of the full weights.
void Export::from_weights(const WriteTensors& write) const {
  saver_.wait();
  const nn::ParameterTable& table = ranks_.table();
  const auto in_place = [&](const nn::Parameter& p) -> const float* {
    return ranks_.first().executor().state(p.group).weights.from(p.offset).in_place(ranks_.first().link());
  };
  if (ranks_.first().layout().state_is_whole() &&
      std::all_of(table.all().begin(), table.all().end(), in_place)) {
    const auto own = [&](const std::string& name) { return in_place(table.at(name)); };
    ranks_.on_first_process([&] { return write(own, [] {}), true; });
  } else if (ranks_.all_local()) {
    Gathered gathered;
    const auto gather = [&](const std::string& name) -> const float* {
      if (const float* const here = gathered.find(name)) return here;
      std::vector<float>& tensor = gathered.make_room(table.at(name));
      tensors_.collect(TensorKind::kWeight, table.at(name), tensor.data());
      return tensor.data();
    };
    write(gather, [&] { gathered.drop(); });
  } else if (ranks_.first().number() == 0) {
    export_with_others(write);
  } else {
    gather_for_export();
  }
}

/// Runs in the process of rank 0. Sends the other processes the name of each tensor to gather, then "" or the
/// error.
void Export::export_with_others(const WriteTensors& write) const {
  const nn::ParameterTable& table = ranks_.table();
  Gathered gathered;
  const auto gather = [&](const std::string& name) -> const float* {
    if (const float* const here = gathered.find(name)) return here;
    std::vector<float>* tensor = nullptr;
    ranks_.from_all_processes([&] {
      tensor = &gathered.make_room(table.at(name));
      return name;
    });
    tensors_.collect(TensorKind::kWeight, table.at(name), tensor->data());
    return tensor->data();
  };
  try {
    write(gather, [&] { gathered.drop(); });
  } catch (const AgreedError&) {
    throw;
  } catch (...) {
    if (ranks_.broken()) throw;
    const std::exception_ptr error = std::current_exception();
    ranks_.from_all_processes([&]() -> std::string { std::rethrow_exception(error); });
  }
  ranks_.from_all_processes([] { return std::string(); });
}

/// Runs in the other processes until rank 0's process has written everything.
void Export::gather_for_export() const {
  const nn::ParameterTable& table = ranks_.table();
  std::vector<float> tensor;
  const auto next = [&] {
    return ranks_
        .from_all_processes([&] {
          for (const nn::Parameter& p : table.all())
            tensor.resize(std::max(tensor.size(), static_cast<size_t>(p.size)));
          return std::string();
        })
        .front();
  };
  for (std::string name = next(); !name.empty(); name = next())
    tensors_.collect(TensorKind::kWeight, table.at(name), tensor.data());
}

}  // namespace hawser::train
