#include "engine/parallel/matrix_homes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "engine/optim/update.h"

namespace hawser::parallel {
namespace {

/// The number of ranks that divide the state of one copy of a group.
int64_t shards_of(const StateLayout& layout, const nn::ParameterGroup& group) {
  const mesh::PlacedTensor state = layout.state(whole_group(group.elements, group.experts));
  for (const mesh::Entry& entry : state.layout().entries)
    if (entry.placement == mesh::Placement::kFlat) return degree(layout.mesh(), entry.axes);
  return 1;
}

/// The ranks that hold parts or copies of what `rank` holds: copy by copy, the parts of each in order.
std::vector<int64_t> holders(const StateLayout& layout, int64_t rank, bool experts) {
  return mesh::group(layout.mesh(), rank, StateLayout::data_axes(experts));
}

int64_t overlap(const mesh::FlatRange& range, const Matrix& m) {
  return std::max<int64_t>(
      0, std::min(range.end, m.in_group + m.elements()) - std::max(range.begin, m.in_group));
}

/// Returns all matrices of a stage, without homes. They include the matrices of every expert, each at its
/// offset on the ranks that hold the expert.
std::vector<Matrix> find(const nn::ParameterTable& table, const MatrixHomes::Place& place) {
  std::vector<Matrix> all;
  for (size_t i = 0; i < table.all().size(); ++i) {
    const nn::Parameter& p = table.all()[i];
    if (!optim::takes_matrices(table.group_of(p))) continue;
    if (!place.stage_of.empty() &&
        place.stage_of[static_cast<size_t>(p.block)] != place.mesh.coordinate(place.rank, mesh::Axis::kPp))
      continue;
    Matrix m{static_cast<int32_t>(i), p.group};
    m.rows = p.shape[p.shape.size() - 2], m.columns = p.shape.back();
    const std::vector<int64_t>& rows = p.matrix_rows;
    for (int64_t at = 0; at < p.size; at += m.elements(), ++m.index) {
      if (!rows.empty()) m.rows = rows[static_cast<size_t>(m.index) % rows.size()];
      m.in_group = p.offset + at % p.room;
      all.push_back(m);
    }
  }
  return all;
}

class Assignment {
 public:
  Assignment(const nn::ParameterTable& table, const StateLayout& layout, const MatrixHomes::Place& place)
      : table_(table), layout_(layout), place_(place), load_(static_cast<size_t>(place.mesh.world_size())) {}

  void run(std::vector<Matrix>* all) {
    std::vector<size_t> order(all->size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto key = [&](size_t i) {
      const Matrix& m = (*all)[i];
      return std::tuple<double, const std::string&, int64_t>(
          -matrix_cost(m.rows, m.columns), table_.all()[static_cast<size_t>(m.parameter)].name, m.index);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    for (const size_t i : order) {
      Matrix& m = (*all)[i];
      const std::vector<int64_t>& ranks = candidates(m);
      m.home = *std::min_element(ranks.begin(), ranks.end(),
                                 [&](int64_t a, int64_t b) { return load(a) < load(b); });
      load(m.home) += matrix_cost(m.rows, m.columns);
    }
  }

  /// The ranks that hold the matrix: of an expert, those that have it.
  const std::vector<int64_t>& candidates(const Matrix& m) {
    const nn::Parameter& p = table_.all()[static_cast<size_t>(m.parameter)];
    const int64_t share = p.cut.experts ? m.index / (p.room / m.elements()) : -1;
    std::vector<int64_t>& ranks = candidates_[share];
    if (ranks.empty()) {
      const int64_t one = share < 0 ? place_.rank : place_.mesh.at(place_.rank, mesh::Axis::kEp, share);
      ranks = holders(layout_, one, share >= 0);
    }
    return ranks;
  }

 private:
  double& load(int64_t rank) { return load_[static_cast<size_t>(rank)]; }

  const nn::ParameterTable& table_;
  const StateLayout& layout_;
  const MatrixHomes::Place& place_;
  std::map<int64_t, std::vector<int64_t>> candidates_;
  std::vector<double> load_;  // by rank of the world
};

/// Fills the view that one rank has of the matrices of a block that the ranks `group` hold.
class View {
 public:
  View(const nn::ParameterTable& table, const std::vector<int64_t>& group, int64_t shards,
       std::vector<const Matrix*> matrices)
      : table_(table), group_(group), shards_(shards), matrices_(std::move(matrices)) {
    for (const Matrix* m : matrices_) homes_.push_back(at(m->home));
  }

  /// Fills what the rank sees.
  void fill(BlockMatrices* out, int64_t rank) {
    self_ = at(rank);
    out->first = static_cast<int64_t>(self_) / shards_ * shards_;
    out->by_home.resize(group_.size()), out->by_rank.resize(group_.size());
    own_parts(out);
    at_home(out);
  }

  /// Raises the largest sizes to those of the rank at place `rank` of the group.
  void raise(BlockMatrices* out, size_t rank) const {
    int64_t own = 0, home = 0, gathered = 0, scattered = 0, count = 0;
    const auto shards = static_cast<size_t>(shards_), copies = group_.size() / shards;
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const Matrix& m = *matrices_[i];
      const int64_t part = overlap(range(m, rank), m), all = static_cast<int64_t>(copies) * m.elements();
      own += part;
      if (homes_[i] == rank) home += all, ++count, scattered += all - part;
      if (homes_[i] != rank && homes_[i] / shards == rank / shards) gathered += part;
    }
    const auto most = [](int64_t* bytes, int64_t elements) { *bytes = std::max(*bytes, elements * 4); };
    most(&out->direction_bytes, own);
    most(&out->scattered_bytes, scattered);
    if (out->gathers()) most(&out->gathered_bytes, gathered);
    if (out->scatters()) most(&out->home_bytes, home);
    out->most_at_home = std::max(out->most_at_home, count);
  }

 private:
  size_t at(int64_t rank) const {
    return static_cast<size_t>(std::find(group_.begin(), group_.end(), rank) - group_.begin());
  }
  /// The elements of the matrix's group that the rank at this place keeps.
  mesh::FlatRange range(const Matrix& m, size_t rank) const {
    const int64_t elements = table_.groups()[static_cast<size_t>(m.group)].elements;
    if (shards_ == 1) return {0, elements};
    return mesh::shard_range(elements, shards_, static_cast<int64_t>(rank) % shards_);
  }

  void own_parts(BlockMatrices* out) {
    int64_t next = 0;
    for (size_t home = 0; home < group_.size(); ++home) {
      for (const Matrix* m : matrices_) {
        const int64_t n = overlap(range(*m, self_), *m);
        if (m->home != group_[home] || n == 0) continue;
        const int64_t begin = std::max(range(*m, self_).begin, m->in_group);
        out->parts.push_back({m->parameter, m->group, m->rows, m->columns, begin, n, next});
        out->by_home[home] += n * 4, next += n;
      }
    }
  }

  /// The parts come from the ranks of this rank's copy; the results go to the ranks of all copies. Without a
  /// gather, this rank's own part is the whole.
  void at_home(BlockMatrices* out) {
    std::map<const Matrix*, BlockMatrices::AtHome> found;
    int64_t next = 0;
    for (size_t rank = 0; rank < group_.size(); ++rank) {
      for (const Matrix* m : matrices_) {
        const int64_t n = overlap(range(*m, rank), *m);
        if (m->home != group_[self_] || n == 0) continue;
        BlockMatrices::AtHome& home = found[m];
        const int64_t begin = std::max<int64_t>(0, range(*m, rank).begin - m->in_group);
        home.results.push_back({begin, n, next});
        const auto place = static_cast<int64_t>(rank);
        if (out->gathers() && place >= out->first && place < out->first + out->shards)
          home.parts.push_back(home.results.back());
        out->by_rank[rank] += n * 4, next += n;
      }
    }
    for (const Matrix* m : matrices_) {
      const auto home = found.find(m);
      if (home == found.end()) continue;
      home->second.rows = m->rows, home->second.columns = m->columns;
      if (!out->gathers()) home->second.parts = own_part(*out, *m);
      out->at_home.push_back(std::move(home->second));
    }
  }
  static std::vector<optim::MatrixPiece> own_part(const BlockMatrices& out, const Matrix& m) {
    for (const BlockMatrices::Part& part : out.parts)
      if (part.parameter == m.parameter && part.in_group == m.in_group) return {{0, part.n, part.at}};
    return {};
  }

  const nn::ParameterTable& table_;
  const std::vector<int64_t>& group_;
  const int64_t shards_;
  const std::vector<const Matrix*> matrices_;
  std::vector<size_t> homes_;  // by matrix: the place of its home in group_
  size_t self_ = 0;
};

}  // namespace

double matrix_cost(int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(std::min(rows, columns)),
             c = static_cast<double>(std::max(rows, columns));
  return 4 * r * r * c + 2 * r * r * r;
}

MatrixHomes::MatrixHomes(const nn::ParameterTable& table, const StateLayout& layout, const Place& place)
    : all_(find(table, place)) {
  if (all_.empty()) return;
  Assignment assignment(table, layout, place);
  assignment.run(&all_);
  blocks_.resize(2 * (static_cast<size_t>(table.groups().back().block) + 1));
  // By block, those that the same ranks hold.
  std::vector<std::map<const std::vector<int64_t>*, std::vector<const Matrix*>>> held(blocks_.size());
  for (const Matrix& m : all_) {
    const nn::Parameter& p = table.all()[static_cast<size_t>(m.parameter)];
    held[static_cast<size_t>(2 * p.block + (p.cut.experts ? 1 : 0))][&assignment.candidates(m)].push_back(&m);
  }
  for (size_t b = 0; b < blocks_.size(); ++b)
    for (const auto& [ranks, matrices] : held[b]) {
      const int64_t shards = shards_of(layout, table.groups()[static_cast<size_t>(matrices[0]->group)]);
      blocks_[b].shards = shards, blocks_[b].ranks = static_cast<int64_t>(ranks->size());
      View view(table, *ranks, shards, matrices);
      for (size_t rank = 0; rank < ranks->size(); ++rank) view.raise(&blocks_[b], rank);
      if (std::find(ranks->begin(), ranks->end(), place.rank) != ranks->end())
        view.fill(&blocks_[b], place.rank);
    }
}

const BlockMatrices* MatrixHomes::of(int32_t block, bool experts) const {
  const size_t at = 2 * static_cast<size_t>(block) + (experts ? 1 : 0);
  if (at >= blocks_.size() || blocks_[at].direction_bytes == 0) return nullptr;
  return &blocks_[at];
}

}  // namespace hawser::parallel
