#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/config_node.h"
#include "config/key_shape.h"

namespace dptrain {

struct ReadMapping;

/// The record of one key that was read.
struct ReadKey {
  std::string key;
  KeyShape shape = {};
  const ConfigNode* written = nullptr;  ///< null if the key is missing, or has nothing behind its colon
  std::string shown = {};         ///< the resolved value as YAML on one line; empty: left out, or shown by `inner`
  std::string origin = {};        ///< "configs/a.yaml:12", "--set", "default"
  bool resolved = false;          ///< resolve() gave `shown` and `origin`, which stay
  std::string default_word = {};  ///< what a missing key means, such as `auto`; empty if it doesn't mean a word
  /// For a section its mapping; for a list each of its mappings; for a name the mapping with its options. While the
  /// schema is described: the options of every name, in the order of shape.names.
  std::vector<std::unique_ptr<ReadMapping>> inner = {};

  /// Sets the shown value and its origin, unless resolve() has set them.
  void show(std::string yaml, std::string from);
};

/// The record of one mapping that was read. Several readers may share it. Each key occurs once, in the order read.
struct ReadMapping {
  const ConfigNode* node = nullptr;  ///< null if the mapping wasn't written
  std::string path;                  ///< dotted keys that lead to it; empty at the top
  ConfigOrigin origin;               ///< where it was written, or the mapping around it
  bool muted = false;                ///< it replaces a wrong mapping, so mistakes in it are not reported
  bool free_keys = false;            ///< its keys are the user's own
  std::string choice = {};           ///< in a named list, the name whose options these are
  std::deque<ReadKey> keys;          ///< a deque, because readers keep references while it grows

  /// The record of `key`. Makes a new one if nobody asked for the key before.
  ReadKey& record(std::string_view key);
  /// The value written under `key`, even if it is null; nullptr if the key is missing.
  const ConfigNode* find(std::string_view key) const;
  /// Where `key` was written, or else the mapping.
  const ConfigOrigin& origin_of(std::string_view key) const;
  /// The key with its path: "strategy.bucket_mb".
  std::string dotted(std::string_view key) const;
};

/// One pass over a config, or over its schema.
struct ReadPass {
  struct Noted {
    ConfigOrigin origin;
    std::string sentence;
    std::string absent = {};  ///< the dotted key that the sentence says is missing
  };

  bool describing = false;
  ReadMapping root;
  std::deque<ReadMapping> stand_ins;               ///< muted mappings, read in place of wrong ones
  std::deque<ConfigNode> expanded;                 ///< mappings that replace shorthands
  std::set<std::string, std::less<>> definitions;  ///< the named lists described so far
  std::vector<Noted> mistakes;
  std::set<std::string, std::less<>> unmeasured;  ///< keys of the top level whose values the caller can't judge
  std::optional<Error> failure;                   ///< thrown at the end

  void note(const ReadMapping& mapping, const ConfigOrigin& origin, const Mistake& mistake);
  void note(const ReadMapping& mapping, const ConfigOrigin& origin, const Error& error);
  /// Notes a mistake about a required key of the mapping that is missing.
  void note_absent(const ReadMapping& mapping, const std::string& key, const Mistake& mistake);
  /// Notes the keys that occur twice in a mapping of `node`, at the second place. `path` is the dotted path of `node`
  /// ("strategy.links").
  void note_repeated_keys(const ConfigNode& node, const std::string& path = {});
  /// Notes the keys of `mapping`, and of the mappings in it, that nothing asked for. If a key is missing because it is
  /// misspelled, that is one mistake.
  void note_unknown_keys(const ReadMapping& mapping);
  /// Each mistake once, in the order of the file. Mistakes without a line come last.
  std::vector<std::string> mistake_lines() const;
};

/// The origin without its column: "configs/a.yaml:12", "--set".
std::string short_origin(const ConfigOrigin& origin);
/// The beginning of a message about a key: "configs/a.yaml:12:3: strategy.bucket_mb".
std::string place(const ConfigOrigin& origin, const std::string& dotted);

}  // namespace dptrain
