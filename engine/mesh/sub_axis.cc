#include "engine/mesh/sub_axis.h"

namespace hawser::mesh {
namespace {

int64_t inner_degree(const DeviceMesh& mesh, const SubAxis& axis) {
  return mesh.degree(axis.axis) / axis.outer_degree;
}

}  // namespace

std::string name(const SubAxis& axis) {
  const char* const halves[] = {"", ".outer", ".inner"};
  return std::string(axis_name(axis.axis)) + halves[static_cast<size_t>(axis.half)];
}

int64_t degree(const DeviceMesh& mesh, const SubAxis& axis) {
  if (axis.half == Half::kWhole) return mesh.degree(axis.axis);
  return axis.half == Half::kOuter ? axis.outer_degree : inner_degree(mesh, axis);
}

int64_t coordinate(const DeviceMesh& mesh, int64_t rank, const SubAxis& axis) {
  const int64_t whole = mesh.coordinate(rank, axis.axis);
  if (axis.half == Half::kWhole) return whole;
  const int64_t inner = inner_degree(mesh, axis);
  return axis.half == Half::kOuter ? whole / inner : whole % inner;
}

int64_t at(const DeviceMesh& mesh, int64_t rank, const SubAxis& axis, int64_t coordinate) {
  if (axis.half == Half::kWhole) return mesh.at(rank, axis.axis, coordinate);
  const int64_t whole = mesh.coordinate(rank, axis.axis), inner = inner_degree(mesh, axis);
  return mesh.at(
      rank, axis.axis,
      axis.half == Half::kOuter ? coordinate * inner + whole % inner : whole / inner * inner + coordinate);
}

int64_t degree(const DeviceMesh& mesh, std::span<const SubAxis> axes) {
  int64_t product = 1;
  for (const SubAxis& axis : axes) product *= degree(mesh, axis);
  return product;
}

int64_t coordinate(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes) {
  int64_t index = 0;
  for (const SubAxis& axis : axes) index = index * degree(mesh, axis) + coordinate(mesh, rank, axis);
  return index;
}

int64_t at(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes, int64_t coordinate) {
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t size = degree(mesh, axes[i]);
    rank = at(mesh, rank, axes[i], coordinate % size);
    coordinate /= size;
  }
  return rank;
}

std::vector<int64_t> group(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes) {
  std::vector<int64_t> members(static_cast<size_t>(degree(mesh, axes)));
  for (size_t i = 0; i < members.size(); ++i) {
    members[i] = at(mesh, rank, axes, static_cast<int64_t>(i));
  }
  return members;
}

}  // namespace hawser::mesh
