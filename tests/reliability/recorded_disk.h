// A recorder of file operations, and a disk that they are played back to. Between two of them the power may
// go: then what was flushed is there, and of everything else any part, in any order.
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
  std::string path;  ///< below the recorded folder
  std::string to;    ///< of a rename or exchange
  std::string data;  ///< of a write, at the end of the file; of kDone: what is done
};

/// Records what this process does below `folder` while it lives. One at a time; one thread.
class Recorder {
 public:
  explicit Recorder(const std::string& folder);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// The caller knows now that something is durable.
  void done(const std::string& what);
  const std::vector<Operation>& operations() const;
};

/// The disk as POSIX allows it. A file's bytes are sure after its flush; a folder's entries after the flush
/// of that folder. Anything after that may be there or not after the power goes, each change on its own.
class RecordedDisk {
 public:
  /// Takes a real folder as what is durable at the beginning.
  explicit RecordedDisk(const std::string& folder);
  void play(const Operation& operation);
  /// The power goes now: writes one of the states that may be found afterwards to the (new) folder `to`.
  void lose_power(std::mt19937_64* random, const std::string& to) const;

 private:
  using Names = std::map<std::string, int>;                 // name -> node
  using Change = std::vector<std::pair<std::string, int>>;  // together; -1: the name goes
  struct Node {
    bool folder = false;
    std::string durable;               // a file's bytes
    std::vector<std::string> written;  // since its last flush
    Names names, durable_names;        // a folder's, as seen by the process and for sure
    std::vector<Change> changes;       // since its last flush
  };
  int add(bool folder);
  int take(const std::string& real);
  int find(const std::string& path) const;
  void change(const std::string& folder, Change change);
  void restore(int node, std::mt19937_64* random, const std::string& to, int depth) const;
  std::string file_after(const Node& node, std::mt19937_64* random) const;
  Names names_after(const Node& node, std::mt19937_64* random) const;

  std::vector<Node> nodes_;  // 0: the folder
};

}  // namespace hawser::reliability
