#include "engine/text/parquet_rows.h"

#include <utility>

#include "engine/text/open_text_module.h"
#include "engine/text/text_call.h"

namespace hawser::text {

ParquetRows::ParquetRows(std::string path, const std::string& module_folder)
    : path_(std::move(path)), module_(&open_text_module(module_folder)) {
  const TextCall call(path_);
  call.check(module_->rows_open(path_.data(), path_.size(), &rows_, &total_, call.error()));
}

ParquetRows::~ParquetRows() { module_->rows_close(rows_); }

std::optional<std::string> ParquetRows::next() {
  std::string row;
  int32_t more = 0;
  const TextCall call(path_);
  const Collector<std::string> into(&row);
  call.check(module_->rows_next(rows_, &more, into.sink(), call.error()));
  into.rethrow();
  return more != 0 ? std::optional(std::move(row)) : std::nullopt;
}

}  // namespace hawser::text
