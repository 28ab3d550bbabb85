// save: writes a checkpoint from one rank that has every tensor in full.
#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/checkpoint/stored_tensor.h"

namespace hawser::checkpoint {

void save(const std::string& path, const std::vector<TensorView>& tensors, const Description& description,
          int64_t shard_bytes) {
  check_description(description);  // before anything is written
  std::vector<PieceView> pieces;
  for (const TensorView& tensor : tensors) {
    const std::optional<int64_t> elements = element_count(tensor.dtype, tensor.shape);
    if (!elements)
      fail(Code::kInvalidArgument, "tensor {} has the shape {}, which cannot be stored",
           in_quotes(tensor.name), shape_text(tensor.shape));
    pieces.push_back({tensor.name, tensor.dtype, tensor.shape, 0, *elements, tensor.data});
  }
  ShardedSave save(path);
  save.finish({write_shard(save.folder(), 0, 1, pieces, shard_bytes)}, description);
}

}  // namespace hawser::checkpoint
