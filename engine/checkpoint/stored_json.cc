#include "engine/checkpoint/stored_json.h"

#include <fmt/format.h>

#include "engine/base/json.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/json_fields.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {
namespace {

Json piece_json(const StoredTensor& tensor, const StoredPiece& piece) {
  Json json;
  if (tensor.is_whole(piece)) {
    json["begin"] = std::vector<int64_t>(tensor.shape.size(), 0);
    json["end"] = tensor.shape;
  } else if (piece.rows > 1) {
    const int64_t row = piece.begin / tensor.columns(), column = piece.begin % tensor.columns();
    json["begin"] = {row, column};
    json["end"] = {row + piece.rows, column + piece.end - piece.begin};
  } else {
    json["range"] = {piece.begin, piece.end};
  }
  json["file"] = piece.file;
  json["offset"] = piece.offset;
  json["bytes"] = tensor.bytes_of(piece);
  json["digest"] = piece.digest;
  return json;
}

void parse_rectangle(const JsonFields& fields, const StoredTensor& tensor, StoredPiece* piece) {
  const std::vector<int64_t> begin = fields.integers("begin", kMaxTensorRank),
                             end = fields.integers("end", kMaxTensorRank);
  if (begin == std::vector<int64_t>(tensor.shape.size(), 0) && end == tensor.shape) {
    piece->end = tensor.elements;
    return;
  }
  const bool inside = tensor.shape.size() == 2 && begin.size() == 2 && end.size() == 2 && begin[0] < end[0] &&
                      begin[1] < end[1] && end[0] <= tensor.shape[0] && end[1] <= tensor.shape[1];
  if (inside) {
    piece->begin = begin[0] * tensor.columns() + begin[1];
    piece->end = piece->begin + end[1] - begin[1];
    piece->rows = end[0] - begin[0];
  }
  if (!inside || !tensor.has_rectangle(piece->begin, piece->end, piece->rows))
    fields.corrupt(
        fmt::format("is the rectangle from {} to {} of a tensor {}; it must be the whole tensor, or several "
                    "rows of some columns",
                    shape_text(begin), shape_text(end), shape_text(tensor.shape)));
}

void parse_place(const JsonFields& fields, const StoredTensor& tensor, StoredPiece* piece) {
  if (!fields.has("range")) {
    return parse_rectangle(fields, tensor, piece);
  }
  if (fields.has("begin") || fields.has("end")) fields.corrupt("has both a range and a rectangle");
  const std::vector<int64_t> range = fields.integers("range", 2);
  if (range.size() != 2 || range[0] >= range[1] || range[1] > tensor.elements)
    fields.corrupt(fmt::format("has the range {}, outside the tensor's {} elements", shape_text(range),
                               tensor.elements));
  piece->begin = range[0];
  piece->end = range[1];
}

StoredPiece parse_piece(const Json& json, const std::string& name, const StoredTensor& tensor,
                        const StoredFiles& files, const std::string& where) {
  const JsonFields fields(json, where, "a piece of tensor " + in_quotes(name));
  StoredPiece piece;
  parse_place(fields, tensor, &piece);
  piece.file = fields.text("file");
  if (files.count(piece.file) == 0 || is_extra_file(piece.file, nullptr))
    fields.corrupt("lies in the unlisted file " + in_quotes(piece.file));
  piece.offset = fields.integer("offset");
  if (fields.integer("bytes") != tensor.bytes_of(piece))
    fields.corrupt(fmt::format(
        "has {} bytes where elements [{}, {}){} of {} take {}", fields.integer("bytes"), piece.begin,
        piece.end, piece.rows > 1 ? fmt::format(" and those below them, {} rows,", piece.rows) : "",
        dtype_name(tensor.dtype), tensor.bytes_of(piece)));
  piece.digest = fields.text("digest");
  return piece;
}

/// Parses dtype and shape, without the pieces.
StoredTensor parse_kind(const JsonFields& fields) {
  StoredTensor tensor;
  const std::optional<DType> dtype = dtype_from_name(fields.text("dtype"));
  if (!dtype) fields.corrupt("has the unknown dtype " + in_quotes(fields.text("dtype")));
  tensor.dtype = *dtype;
  tensor.shape = fields.integers("shape", kMaxTensorRank);
  const std::optional<int64_t> elements = element_count(tensor.dtype, tensor.shape);
  if (!elements) fields.corrupt("has the shape " + shape_text(tensor.shape) + ", whose size overflows");
  tensor.elements = *elements;
  return tensor;
}

}  // namespace

bool is_extra_file(std::string_view file, std::string* name) {
  const std::string extra = std::string(kExtraFolder) + "/";
  if (file.substr(0, extra.size()) != extra) return false;
  if (name != nullptr) *name = std::string(file.substr(extra.size()));
  return true;
}

Json files_json(const StoredFiles& files) {
  Json result = Json::object();
  for (const auto& [name, file] : files) result[name] = {{"bytes", file.bytes}, {"digest", file.digest}};
  return result;
}

Json tensors_json(const StoredTensors& tensors) {
  Json result = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json pieces = Json::array();
    for (const StoredPiece& piece : tensor.pieces) pieces.push_back(piece_json(tensor, piece));
    Json& entry = result[name];
    entry["dtype"] = dtype_name(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["pieces"] = std::move(pieces);
  }
  return result;
}

StoredFiles parse_files(const Json& json, const std::string& where) {
  StoredFiles files;
  for (const auto& [name, entry] : json.items()) {
    std::string plain = name;
    is_extra_file(name, &plain);
    if (!is_plain_name(plain))
      fail(Code::kCheckpointCorrupt, "{}: the file name {} points outside the checkpoint", where,
           in_quotes(name));
    const JsonFields fields(entry, where, "file " + in_quotes(name));
    files[name] = {fields.integer("bytes"), fields.text("digest")};
  }
  return files;
}

StoredTensors parse_tensors(const Json& json, const StoredFiles& files, const std::string& where) {
  StoredTensors tensors;
  for (const auto& [name, entry] : json.items()) {
    const JsonFields fields(entry, where, "tensor " + in_quotes(name));
    StoredTensor tensor = parse_kind(fields);
    const Json& pieces = fields.array_at("pieces");
    tensor.pieces.reserve(pieces.size());
    for (const Json& piece : pieces) tensor.pieces.push_back(parse_piece(piece, name, tensor, files, where));
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace hawser::checkpoint
