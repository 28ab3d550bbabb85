// RecordedDisk: a recorder of file operations, and a disk to which they are replayed. The power may fail
// between two operations. Then everything that was flushed is present, and any part of the rest, in any
// order.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hawser::reliability {

struct Operation {
  enum class Kind { kMakeFolder, kMakeFile, kWrite, kFlush, kRename, kExchange, kRemove, kDone };
  Kind kind;
  std::string path;  ///< path relative to the recorded folder
  std::string to;    ///< new name of a rename or exchange
  std::string data;  ///< bytes of a write, appended to the file; for kDone: the promise
};

/// Records what this process does below `folder` while the object lives. Only one may exist at a time, and
/// only one thread at a time may write.
class Recorder {
 public:
  explicit Recorder(const std::string& folder);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Records that the caller now relies on something being durable.
  void done(const std::string& what);
  const std::vector<Operation>& operations() const;
};

/// Models a disk as POSIX allows it. A file's bytes are certain after its flush; a folder's entries after the
/// flush of that folder. Each later change may independently be present or missing after a power loss.
class RecordedDisk {
 public:
  /// Takes the contents of a real folder as durable at the beginning.
  explicit RecordedDisk(const std::string& folder);
  void play(const Operation& operation);
  /// Simulates a power loss: writes one of the possible states to the (new) folder `to`.
  void lose_power(std::mt19937_64* random, const std::string& to) const;

 private:
  using Names = std::map<std::string, int>;                 // name -> node
  using Change = std::vector<std::pair<std::string, int>>;  // changes that happen together; -1: removal
  struct Node {
    bool folder = false;
    std::string durable;               // a file's bytes
    std::vector<std::string> written;  // writes since its last flush
    Names names, durable_names;        // a folder's entries: as seen by the process, and certain
    std::vector<Change> changes;       // changes since its last flush
  };
  int add(bool folder);
  int take(const std::string& real);
  int find(const std::string& path) const;
  void change(const std::string& folder, Change change);
  void restore(int node, std::mt19937_64* random, const std::string& to, int depth) const;
  std::string file_after(const Node& node, std::mt19937_64* random) const;
  Names names_after(const Node& node, std::mt19937_64* random) const;

  std::vector<Node> nodes_;  // node 0 is the folder
};

}  // namespace hawser::reliability
