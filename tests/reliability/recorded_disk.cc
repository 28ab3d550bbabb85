#include "tests/reliability/recorded_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fs = std::filesystem;
using hawser::reliability::Operation;
using Kind = Operation::Kind;

namespace {

std::string g_root;  // "": recording is off
std::vector<Operation> g_operations;

/// Computes the path of `fd`, or of `name` in it, relative to the recorded folder. Returns false if it is not
/// below that folder.
bool below_root(int fd, const char* name, std::string* path) {
  if (g_root.empty()) return false;
  std::string full = name;
  if (full.empty() || full[0] != '/') {
    std::error_code error;
    const std::string folder = fd == AT_FDCWD
                                   ? fs::current_path().string()
                                   : fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
    full = full.empty() ? folder : folder + "/" + full;
  }
  full = fs::path(full).lexically_normal().string();
  if (full == g_root) return *path = "", true;
  if (!full.starts_with(g_root + "/")) return false;
  *path = full.substr(g_root.size() + 1);
  return true;
}

int record(int result, Kind kind, int fd, const char* name, const std::string& data = "") {
  const int error = errno;
  std::string path;
  if (result >= 0 && below_root(fd, name, &path)) g_operations.push_back({kind, path, "", data});
  errno = error;
  return result;
}

int record_pair(int result, Kind kind, int folder, const char* from, const char* to) {
  const int error = errno;
  std::string a, b;
  if (result == 0 && below_root(folder, from, &a) && below_root(folder, to, &b))
    g_operations.push_back({kind, a, b, ""});
  errno = error;
  return result;
}

}  // namespace

extern "C" {
ssize_t __real_write(int, const void*, size_t);
int __real_fsync(int);
int __real_mkdir(const char*, mode_t);
int __real_mkdirat(int, const char*, mode_t);
int __real_openat(int, const char*, int, ...);
int __real_rename(const char*, const char*);
int __real_renameat2(int, const char*, int, const char*, unsigned);
int __real_unlinkat(int, const char*, int);

ssize_t __wrap_write(int fd, const void* data, size_t n) {
  const ssize_t written = __real_write(fd, data, n);
  if (written > 0)
    record(0, Kind::kWrite, fd, "", {static_cast<const char*>(data), static_cast<size_t>(written)});
  return written;
}
int __wrap_fsync(int fd) { return record(__real_fsync(fd), Kind::kFlush, fd, ""); }
int __wrap_mkdir(const char* path, mode_t mode) {
  return record(__real_mkdir(path, mode), Kind::kMakeFolder, AT_FDCWD, path);
}
int __wrap_mkdirat(int fd, const char* name, mode_t mode) {
  return record(__real_mkdirat(fd, name, mode), Kind::kMakeFolder, fd, name);
}
int __wrap_openat(int fd, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  const int result = __real_openat(fd, name, flags, mode);
  return (flags & O_CREAT) != 0 ? record(result, Kind::kMakeFile, fd, name) : result;
}
int __wrap_rename(const char* from, const char* to) {
  return record_pair(__real_rename(from, to), Kind::kRename, AT_FDCWD, from, to);
}
int __wrap_renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  const Kind kind = (flags & RENAME_EXCHANGE) != 0 ? Kind::kExchange : Kind::kRename;
  return record_pair(__real_renameat2(a, from, b, to, flags), kind, a, from,
                     to);  // a equals b
}
int __wrap_unlinkat(int fd, const char* name, int flags) {
  return record(__real_unlinkat(fd, name, flags), Kind::kRemove, fd, name);
}
}

namespace hawser::reliability {
namespace {

std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string read_file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool coin(std::mt19937_64* random) { return ((*random)() & 1) != 0; }

}  // namespace

Recorder::Recorder(const std::string& folder) {
  g_operations.clear();
  g_root = fs::canonical(folder).string();
}
Recorder::~Recorder() { g_root.clear(); }
void Recorder::done(const std::string& what) { g_operations.push_back({Kind::kDone, "", "", what}); }
const std::vector<Operation>& Recorder::operations() const { return g_operations; }

RecordedDisk::RecordedDisk(const std::string& folder) { take(folder); }

int RecordedDisk::add(bool folder) {
  nodes_.emplace_back().folder = folder;
  return static_cast<int>(nodes_.size()) - 1;
}

int RecordedDisk::take(const std::string& real) {
  const int node = add(fs::is_directory(real));
  if (!nodes_[static_cast<size_t>(node)].folder) {
    nodes_[static_cast<size_t>(node)].durable = read_file(real);
    return node;
  }
  Names names;
  for (const auto& entry : fs::directory_iterator(real)) names[entry.path().filename()] = take(entry.path());
  nodes_[static_cast<size_t>(node)].names = nodes_[static_cast<size_t>(node)].durable_names = names;
  return node;
}

int RecordedDisk::find(const std::string& path) const {
  if (path.empty()) return 0;
  const auto [folder, name] = split(path);
  const Names& names = nodes_[static_cast<size_t>(find(folder))].names;
  const auto found = names.find(name);
  if (found == names.end()) throw std::logic_error("the recorded disk has no " + path);
  return found->second;
}

void RecordedDisk::change(const std::string& folder, Change change) {
  Node& node = nodes_[static_cast<size_t>(find(folder))];
  for (const auto& [name, to] : change) {
    node.names.erase(name);
    if (to >= 0) node.names[name] = to;
  }
  node.changes.push_back(std::move(change));
}

void RecordedDisk::play(const Operation& operation) {
  if (operation.kind == Kind::kDone) return;
  const auto [folder, name] = split(operation.path);
  switch (operation.kind) {
    case Kind::kMakeFolder:
    case Kind::kMakeFile: {
      const int node = add(operation.kind == Kind::kMakeFolder);
      return change(folder, {{name, node}});
    }
    case Kind::kWrite:
      nodes_[static_cast<size_t>(find(operation.path))].written.push_back(operation.data);
      return;
    case Kind::kFlush: {
      Node& node = nodes_[static_cast<size_t>(find(operation.path))];
      for (const std::string& data : node.written) node.durable += data;
      node.written.clear();
      node.durable_names = node.names;
      node.changes.clear();
      return;
    }
    case Kind::kRemove:
      return change(folder, {{name, -1}});
    case Kind::kRename:
    case Kind::kExchange: {
      const auto [to_folder, to_name] = split(operation.to);
      if (to_folder != folder) throw std::logic_error("a rename into another folder: teach the disk that");
      const int moved = find(operation.path);
      const int back = operation.kind == Kind::kExchange ? find(operation.to) : -1;
      return change(folder, {{name, back}, {to_name, moved}});
    }
    case Kind::kDone:
      return;
  }
}

/// Each unflushed write may be present or missing; a missing write before a present one becomes zeros. The
/// last present write may be cut short.
std::string RecordedDisk::file_after(const Node& node, std::mt19937_64* random) const {
  std::string bytes = node.durable, end = node.durable;
  for (const std::string& data : node.written) {
    if (!coin(random)) {
      end.append(data.size(), '\0');
      continue;
    }
    bytes = end + data.substr(0, coin(random) ? data.size() : (*random)() % (data.size() + 1));
    end += data;
  }
  return bytes;
}

RecordedDisk::Names RecordedDisk::names_after(const Node& node, std::mt19937_64* random) const {
  std::vector<Change> changes;
  for (const Change& change : node.changes)
    if (coin(random)) changes.push_back(change);
  if (coin(random)) std::shuffle(changes.begin(), changes.end(), *random);
  Names names = node.durable_names;
  for (const Change& change : changes)
    for (const auto& [name, to] : change) {
      names.erase(name);
      if (to >= 0) names[name] = to;
    }
  return names;
}

void RecordedDisk::restore(int number, std::mt19937_64* random, const std::string& to, int depth) const {
  const Node& node = nodes_[static_cast<size_t>(number)];
  if (!node.folder) {
    std::ofstream(to, std::ios::binary) << file_after(node, random);
    return;
  }
  fs::create_directory(to);
  for (const auto& [name, child] : names_after(node, random))
    if (depth < 8) restore(child, random, to + "/" + name, depth + 1);
}

void RecordedDisk::lose_power(std::mt19937_64* random, const std::string& to) const {
  restore(0, random, to, 0);
}

}  // namespace hawser::reliability
