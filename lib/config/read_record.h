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

/// What reading one key left behind.
struct ReadKey {
  std::string key;
  KeyShape shape = {};
  const ConfigNode* written = nullptr;  ///< null where the key is absent, or has nothing behind its colon
  std::string shown = {};         ///< the resolved value as YAML on one line; empty: left out, or shown by `inner`
  std::string origin = {};        ///< "configs/a.yaml:12", "--set", "default"
  bool resolved = false;          ///< `shown` and `origin` were given by resolve() and stay
  std::string default_word = {};  ///< what an absent key means, `auto`; empty where that isn't a word
  /// A section's mapping, or each of a list; for a name the mapping with its options. While the schema is described:
  /// the options of every name, in the order of shape.names.
  std::vector<std::unique_ptr<ReadMapping>> inner = {};

  /// Sets what is shown, unless resolve() has the last word.
  void show(std::string yaml, std::string from);
};

/// What reading one mapping left behind. Several readers may share it; each key stands in it once, in the order read.
struct ReadMapping {
  const ConfigNode* node = nullptr;  ///< null where the mapping wasn't written
  std::string path;                  ///< dotted keys that lead to it; empty at the top
  ConfigOrigin origin;               ///< where it was written, or the mapping around it
  bool muted = false;                ///< stands in for one that is wrong: mistakes in it would be noise
  bool free_keys = false;            ///< its keys are the user's own
  std::string choice = {};           ///< in a named list, the name whose options these are
  std::deque<ReadKey> keys;          ///< a deque, because readers keep references while it grows

  /// The record of `key`, a new one where it wasn't asked for before.
  ReadKey& record(std::string_view key);
  /// What was written under `key`, also where that is null; nullptr where the key is absent.
  const ConfigNode* find(std::string_view key) const;
  /// Where `key`, or else the mapping, was written.
  const ConfigOrigin& origin_of(std::string_view key) const;
  /// "strategy.bucket_mb".
  std::string dotted(std::string_view key) const;
};

/// One pass over a configuration, or over its schema.
struct ReadPass {
  struct Noted {
    ConfigOrigin origin;
    std::string sentence;
    std::string absent = {};  ///< the dotted key that is said to be absent
  };

  bool describing = false;
  ReadMapping root;
  std::deque<ReadMapping> stand_ins;               ///< muted mappings, read where the written one is wrong
  std::deque<ConfigNode> expanded;                 ///< mappings that a shorthand stands for
  std::set<std::string, std::less<>> definitions;  ///< the named lists described so far
  std::vector<Noted> mistakes;
  std::set<std::string, std::less<>> unmeasured;  ///< keys of the top that the caller can't judge
  std::optional<Error> failure;                   ///< to be thrown at the end

  void note(const ReadMapping& mapping, const ConfigOrigin& origin, const Mistake& mistake);
  void note(const ReadMapping& mapping, const ConfigOrigin& origin, const Error& error);
  /// The same of a key of the mapping that is required, and isn't there.
  void note_absent(const ReadMapping& mapping, const std::string& key, const Mistake& mistake);
  /// Notes the keys that stand twice in a mapping of `node`, which stands under `path` ("strategy.links"), at the
  /// second place.
  void note_repeated_keys(const ConfigNode& node, const std::string& path = {});
  /// Notes the keys of `mapping`, and of those in it, that nothing asked for. A key that is absent since it is
  /// misspelled is one mistake.
  void note_unknown_keys(const ReadMapping& mapping);
  /// Each mistake once, in the order of the file, those without a line last.
  std::vector<std::string> mistake_lines() const;
};

/// "configs/a.yaml:12", "--set".
std::string short_origin(const ConfigOrigin& origin);
/// "configs/a.yaml:12:3: strategy.bucket_mb".
std::string place(const ConfigOrigin& origin, const std::string& dotted);

}  // namespace dptrain
