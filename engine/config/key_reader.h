// KeyReader: fills the members of a struct from a section of the config. The struct's rows (each_key, next to
// it) name its keys; the schema has their defaults and the names of enums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/config/effective.h"
#include "engine/config/schema_view.h"
#include "engine/config/tree.h"

namespace hawser::config {

/// A struct with rows.
template <typename T>
concept Section = requires(T& section) {
  each_key(section, [](const char*, auto&, bool = true) {});
};

/// Reads one key into its member. A key that has no value or does not apply leaves its member unchanged.
struct KeyReader {
  const Effective& config;
  std::string prefix = "/";  ///< pointer to the section, with a slash at its end

  template <typename Member>
  void operator()(const char* key, Member& member, bool applies = true) const {
    const std::string pointer = prefix + key;
    if constexpr (Section<Member>)
      each_key(member, KeyReader{config, pointer + "/"});
    else if (applies && config.has(pointer))
      read(pointer, &member);
  }

  void read(const std::string& pointer, int64_t* v) const { *v = config.integer(pointer); }
  void read(const std::string& pointer, uint64_t* v) const { *v = config.find(pointer)->unsigned_integer; }
  void read(const std::string& pointer, double* v) const { *v = config.number(pointer); }
  void read(const std::string& pointer, bool* v) const { *v = config.flag(pointer); }
  void read(const std::string& pointer, std::string* v) const { *v = config.text(pointer); }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void read(const std::string& pointer, Enum* v) const {
    *v = static_cast<Enum>(number_of(*schema_at(pointer), config.text(pointer)));
  }
  template <typename Value>
  void read(const std::string& pointer, std::optional<Value>* v) const {
    read(pointer, &v->emplace());
  }
  template <typename Item>
  void read(const std::string& pointer, std::vector<Item>* items) const {
    for (size_t i = 0; i < config.count(pointer); ++i)
      KeyReader{config, pointer + "/"}(std::to_string(i).c_str(), items->emplace_back());
  }
};

}  // namespace hawser::config
