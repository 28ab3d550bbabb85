#include "engine/parallel/matrix_homes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace hawser::parallel {
namespace {

/// Gives each matrix its home.
void assign(const nn::ParameterTable& table, int64_t world, std::vector<HeldMatrix>* all) {
  std::vector<size_t> order(all->size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const Matrix& m = (*all)[i].matrix;
    return std::tuple<double, const std::string&, int64_t>(
        -matrix_cost(m.rows, m.columns), table.all()[static_cast<size_t>(m.parameter)].name, m.index);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<double> work(static_cast<size_t>(world));
  for (const size_t i : order) {
    HeldMatrix& m = (*all)[i];
    const std::vector<int64_t>& ranks = m.holders->ranks;
    double* least = nullptr;
    for (size_t r = 0; r < ranks.size(); ++r) {
      double& of_rank = work[static_cast<size_t>(ranks[r])];
      if (!m.is_in_share(r) || (least != nullptr && *least <= of_rank)) continue;
      least = &of_rank, m.matrix.home = ranks[r];
    }
    *least += matrix_cost(m.matrix.rows, m.matrix.columns);
  }
}

/// Computes how the ranks of a group exchange the matrices of a block. Ranks are numbered as in
/// Holders::ranks. The matrices that a rank exchanges with another are in the order of the table.
class BlockView {
 public:
  explicit BlockView(const std::vector<const HeldMatrix*>& matrices)
      : matrices_(matrices), ranks_(matrices[0]->holders->ranks), by_home_(matrices.size()) {
    for (const HeldMatrix* m : matrices_) homes_.push_back(number(m->matrix.home));
    std::iota(by_home_.begin(), by_home_.end(), size_t{0});
    std::stable_sort(by_home_.begin(), by_home_.end(),
                     [&](size_t a, size_t b) { return homes_[a] < homes_[b]; });
  }

  /// True if the group contains the rank of the world.
  bool has(int64_t rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }

  /// Raises the maxima in `out` to the sizes of each rank of the group.
  void raise(BlockMatrices* out) const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      int64_t own = 0, parts = 0, home = 0, gathered = 0, scattered = 0, count = 0;
      for (size_t i = 0; i < matrices_.size(); ++i) {
        const HeldMatrix& m = *matrices_[i];
        const int64_t n = m.part(rank).n, all = m.holders->copies * m.matrix.elements();
        own += n;
        if (homes_[i] == rank)
          ++count, parts += m.matrix.elements(), home += all, scattered += all - n;
        else if (m.in_one_copy(rank, homes_[i]))
          gathered += n;
      }
      const auto most = [](int64_t* bytes, int64_t elements) { *bytes = std::max(*bytes, elements * 4); };
      most(&out->direction_bytes, own), most(&out->parts_bytes, parts), most(&out->home_bytes, home);
      most(&out->gathered_bytes, gathered), most(&out->scattered_bytes, scattered);
      out->most_at_home = std::max(out->most_at_home, count);
    }
  }

  /// Fills in the view of one rank. The maxima in `out` must be final, because gathers() depends on them.
  void fill(BlockMatrices* out, int64_t rank) {
    self_ = number(rank);
    for (BlockMatrices::Exchange* e : {&out->gather, &out->scatter})
      e->sent.resize(ranks_.size()), e->received.resize(ranks_.size());
    out->ranks = static_cast<int64_t>(ranks_.size());
    own_parts(out);
    at_home(out);
  }

 private:
  size_t number(int64_t rank) const {
    return static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }

  /// After SCATTER_MATRIX, `direction` has the results in the order of their homes. Before GATHER_MATRIX, it
  /// begins with the parts that this rank sends, in the same order; parts that another holder sends follow.
  void own_parts(BlockMatrices* out) {
    std::vector<bool> sent;
    int64_t next = 0;
    for (const size_t i : by_home_) {
      const HeldMatrix& m = *matrices_[i];
      const HeldMatrix::Part part = m.part(self_);
      if (part.n == 0) continue;
      const Matrix& matrix = m.matrix;
      out->parts.push_back(
          {matrix.parameter, matrix.group, matrix.rows, matrix.columns, part.in_group(), part.n});
      out->parts.back().result = next;
      next += part.n, out->scatter.received[homes_[i]] += part.n * 4;
      sent.push_back(m.in_one_copy(self_, homes_[i]));
      if (sent.back()) out->gather.sent[homes_[i]] += part.n * 4;
    }
    next = 0;
    for (const bool is_sent : {true, false})
      for (size_t p = 0; p < sent.size(); ++p)
        if (sent[p] == is_sent) out->parts[p].at = next, next += out->parts[p].n;
  }

  /// The parts of a matrix come from the ranks with the home's copy number; results go to all ranks that hold
  /// elements of it. Without a gather, this rank's own part in `direction` is the whole matrix.
  void at_home(BlockMatrices* out) {
    std::map<size_t, BlockMatrices::AtHome> found;  // in the order of the table
    int64_t part_at = 0, result_at = 0;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      for (size_t i = 0; i < matrices_.size(); ++i) {
        const HeldMatrix& m = *matrices_[i];
        if (homes_[i] != self_) continue;
        const HeldMatrix::Part part = m.part(rank);
        if (part.n == 0) continue;
        BlockMatrices::AtHome& home = found[i];
        home.rows = m.matrix.rows, home.columns = m.matrix.columns;
        optim::MatrixPiece piece{part.begin, part.n, result_at, part.window.corner, part.window.width};
        home.results.push_back(piece);
        result_at += part.n, out->scatter.sent[rank] += part.n * 4;
        if (!m.in_one_copy(rank, self_)) continue;
        piece.at = out->gathers() ? part_at : place_of(*out, m.matrix.group, part.in_group());
        home.parts.push_back(piece);
        part_at += part.n, out->gather.received[rank] += part.n * 4;
      }
    for (auto& [i, home] : found) out->at_home.push_back(std::move(home));
  }
  static int64_t place_of(const BlockMatrices& out, int32_t group, int64_t in_group) {
    const auto is_it = [&](const BlockMatrices::Part& p) {
      return p.group == group && p.in_group == in_group;
    };
    return std::find_if(out.parts.begin(), out.parts.end(), is_it)->at;
  }

  const std::vector<const HeldMatrix*>& matrices_;
  const std::vector<int64_t>& ranks_;
  std::vector<size_t> homes_;    // by matrix
  std::vector<size_t> by_home_;  // matrices, those of the first rank first
  size_t self_ = 0;
};

}  // namespace

double matrix_cost(int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(std::min(rows, columns)),
             c = static_cast<double>(std::max(rows, columns));
  return 4 * r * r * c + 2 * r * r * r;
}

MatrixHomes::MatrixHomes(const nn::ParameterTable& table, const StateLayout& layout, int64_t rank,
                         const std::vector<int64_t>& stage_of) {
  MatrixParts parts(table, layout, rank, stage_of);
  if (parts.all().empty()) return;
  assign(table, layout.mesh().world_size(), &parts.all());
  blocks_.resize(2 * (static_cast<size_t>(table.groups().back().block) + 1));
  // By block, then by the first of the ranks that exchange them.
  std::vector<std::map<int64_t, std::vector<const HeldMatrix*>>> held(blocks_.size());
  for (const HeldMatrix& m : parts.all()) {
    const nn::Parameter& p = table.all()[static_cast<size_t>(m.matrix.parameter)];
    held[static_cast<size_t>(2 * p.block + (p.cut.experts ? 1 : 0))][m.holders->ranks.front()].push_back(&m);
    all_.push_back(m.matrix);
  }
  for (size_t b = 0; b < blocks_.size(); ++b) {
    for (const auto& [first, matrices] : held[b]) BlockView(matrices).raise(&blocks_[b]);
    for (const auto& [first, matrices] : held[b])
      if (BlockView view(matrices); view.has(rank)) view.fill(&blocks_[b], rank);
  }
}

const BlockMatrices* MatrixHomes::of(int32_t block, bool experts) const {
  const size_t at = 2 * static_cast<size_t>(block) + (experts ? 1 : 0);
  if (at >= blocks_.size() || blocks_[at].direction_bytes == 0) return nullptr;
  return &blocks_[at];
}

}  // namespace hawser::parallel
