// PrepareCounts: counts how many rows of a preparation were kept, cut or dropped, for its report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/prepare/row_documents.h"

namespace hawser::train {

class PrepareCounts {
 public:
  void begin_file(const std::string& path, const char* form, int64_t bytes);
  /// Throws kDataInvalid for a pair among rows that are not pairs, and the reverse. `where` names the row in
  /// the error.
  void add(const RowDocuments& row, const std::string& where);

  /// True if the rows are pairs. Either all rows are pairs or none is.
  bool pairs() const { return forms_.count("pair") > 0; }
  int64_t rows() const { return static_cast<int64_t>(lengths_.size()); }
  /// The number of rows that a training template rendered.
  int64_t by_training_template() const { return by_training_template_; }
  /// {"rows", "files", "forms", "length", "cut", "dropped", "unprinted", "without_end"}
  OrderedJson report() const;
  /// Returns an error text that explains why no row is left.
  std::string no_rows_message(int64_t sequence) const;

 private:
  OrderedJson lengths() const;

  struct File {
    std::string name;
    const char* form;
    int64_t bytes, rows;
  };
  std::vector<File> files_;
  std::map<std::string, int64_t> forms_;
  std::vector<int32_t> lengths_;
  int64_t cut_rows_ = 0, cut_tokens_ = 0, endless_ = 0, by_training_template_ = 0;
  std::map<std::string, int64_t> unprinted_;
  std::map<RowFate, int64_t> fates_;
};

}  // namespace hawser::train
