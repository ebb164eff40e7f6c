#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_node.h"

namespace dptrain {

class ConfigReader;
class Error;

struct IntegerRule {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  std::string_view help = {};
  int64_t example = 1;  ///< for advice, if there is no default
};

struct NumberRule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclusive_min = false;  ///< the value must be greater than `min`
  bool exclusive_max = false;
  std::string_view help = {};
  double example = 0.1;  ///< for advice, if there is no default
};

/// One name that a key may have as its value, with the options that go with it. This is a row of a registration table.
struct ConfigChoice {
  std::string name;
  std::string help = {};
  /// Reads the options of this name from the mapping where they were written. May be empty.
  std::function<void(ConfigReader&)> read_options = {};
  /// In a named list, the option that a value alone sets: `linear: 128` is `linear: {features: 128}`.
  std::string shorthand = {};
};

struct NamedListRule {
  /// What such a list holds, for instance `layers`. Messages and the schema use this name. If options of its items
  /// contain lists of the same name, the schema describes the list once.
  std::string_view definition;
  bool required = true;
  bool may_be_empty = false;  ///< then a missing list counts as empty
  std::string_view help = {};
  std::string_view example = {};  ///< for advice; by default only the first name
};

/// Keys in the order read, and the values that they resolved to, as YAML on one line: {"normalize", "{mean: [0.5], std:
/// [1]}"}.
using ResolvedOptions = std::vector<std::pair<std::string, std::string>>;

/// Everything that reading a whole config collects: mistakes, the resolved values with their origins, and the schema.
class ConfigSession;
struct KeyShape;
struct ReadKey;
struct ReadMapping;
struct ReadPass;

/// Reads one mapping, key by key. The calls that read a config also collect its mistakes, write the resolved config and
/// describe the schema. So whatever is read is documented. A mistake is noted and a harmless value returned, so that
/// one pass finds all mistakes. ConfigSession throws them at its end.
///
/// A key that nothing reads is a mistake; the nearest name is suggested. A key without a value, `seed:` or `seed:
/// null`, counts as absent. Several functions may read keys of the same mapping. Reading a key again is no mistake.
class ConfigReader {
 public:
  int64_t integer(std::string_view key, std::optional<int64_t> otherwise, const IntegerRule& rule = {});
  std::optional<int64_t> optional_integer(std::string_view key, const IntegerRule& rule = {});
  double number(std::string_view key, std::optional<double> otherwise, const NumberRule& rule = {});
  std::optional<double> optional_number(std::string_view key, const NumberRule& rule = {});
  bool boolean(std::string_view key, std::optional<bool> otherwise, std::string_view help = {});
  std::string text(std::string_view key, std::optional<std::string> otherwise, std::string_view help = {});
  std::optional<std::string> optional_text(std::string_view key, std::string_view help = {});
  /// A path. A relative path is relative to the file where it was written, or to the working directory in an override.
  std::optional<std::filesystem::path> optional_path(std::string_view key, std::string_view help = {});
  /// As optional_path, but required.
  std::filesystem::path path(std::string_view key, std::string_view help = {});
  /// One path or a list of paths, as optional_path reads them. Empty if the key is missing.
  std::vector<std::filesystem::path> paths(std::string_view key, std::string_view help = {});
  /// One of `names`.
  std::string one_of(std::string_view key, std::span<const std::string> names, std::optional<std::string> otherwise,
                     std::string_view help = {});
  /// One integer, or a list of them.
  std::vector<int64_t> integers(std::string_view key, std::optional<std::vector<int64_t>> otherwise,
                                const IntegerRule& rule = {});
  /// One number, or a list of them.
  std::vector<double> numbers(std::string_view key, std::vector<double> otherwise, const NumberRule& rule = {});
  /// A list of texts, or one text with commas between them.
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> otherwise, std::string_view help = {});
  /// A name, or a mapping with `name:` and options: `strategy: ddp` or `strategy: {name: ddp, bucket_mb: 25}`. Calls
  /// the `read_options` of the chosen row on that mapping and returns the name. Without `otherwise` the key is
  /// required. If the mapping has no `name:`, its one key that is a name chooses: `init: {normal: 0.01}`.
  std::string named(std::string_view key, std::span<const ConfigChoice> choices, std::optional<std::string> otherwise,
                    std::string_view help = {});
  /// Reads the mapping under `key`. If it is missing, `read` gets an empty one. `example` is a value for advice; by
  /// default a mapping with the first key that `read` asks for.
  void section(std::string_view key, const std::function<void(ConfigReader&)>& read, std::string_view help = {},
               std::string_view example = {});
  /// Reads the list of mappings under `key`: calls `read` for each, in order. A missing list counts as empty. Returns
  /// how many there are. `example` is a list for advice.
  size_t sections(std::string_view key, const std::function<void(ConfigReader&)>& read, std::string_view help = {},
                  std::string_view example = {});
  /// Reads a list of names, each alone or in front of its options: `[relu, conv: {kernel: 5}]`. The list may be empty
  /// only if the rule allows it. Calls the `read_options` of each item's row, in order.
  void named_list(std::string_view key, std::span<const ConfigChoice> choices, const NamedListRule& rule);
  /// Whether `key` has `word` as its value, such as `bucket_mb: auto`. With `by_default` a missing key counts as the
  /// word. Must be called before the value is read, because the word would be a mistake there:
  /// `word("bucket_mb", "auto", true) ? kAuto : number("bucket_mb", {}, {.min = 0})`.
  bool word(std::string_view key, std::string_view word, bool by_default);
  /// The keys that were written, for a mapping with keys of the user's choice, such as hosts. While the schema is
  /// described there is one key, `*`, that stands for all.
  std::vector<std::string> written_keys();

  /// Whether the key was written with a value.
  bool has(std::string_view key) const;
  /// The value as it was written, if it is a text, a number or a word; else "".
  std::string written(std::string_view key) const;
  /// Whether a key was written that nobody has asked for. Call it after asking for all possible keys. Such a key may be
  /// a misspelled one, so a missing key needs no message of its own then.
  bool has_others() const;
  /// Notes a mistake about `key`: "<origin>: <key>: <expected>, got <got>; <advice>".
  void mistake(std::string_view key, std::string_view expected, std::string_view got, std::string_view advice);
  /// Notes the sentences of `error`, a mistake about `key`. After it, values under the `measured` keys of the top level
  /// can't be compared with anything, so mistake() notes nothing about them from here on. Mistakes in such a value by
  /// itself are still noted.
  void doubt(std::string_view key, const Error& error, std::span<const std::string_view> measured);
  /// Throws `error` once everything has been read. If there are mistakes, it comes after all of them.
  void fail_at_end(const Error& error);
  /// The beginning of a message about the key: "<origin>: <key>". If the key wasn't written, the origin is the
  /// mapping's.
  std::string where(std::string_view key) const;
  /// The beginning of a message about the mapping as a whole. Such a message may be noted after reading has ended.
  std::string where() const;
  /// Whether the schema is being described. Then nothing was written, and every value returned is a default or a
  /// harmless one.
  bool describing() const;
  /// Notes that the default of `key` follows from other keys or from the machine, so the schema has none. The key must
  /// have been read.
  void default_varies(std::string_view key);
  /// Replaces the value that `--dump-config` and config.yaml show for `key` by the one that it resolved to ("auto" ->
  /// "cpu:0"). `value` is YAML (25, 'cpu:0', [1, 3], {name: ddp}) and replaces the whole value, options included.
  /// `origin` is shown as its origin. The key must have been read.
  void resolve(std::string_view key, std::string_view value, std::string_view origin);
  /// The options of the name under `key`, defaults included, as config.yaml shows them. Options without a value are
  /// left out. Values that mean the same give equal results, however they were written. named() must have read the key.
  ResolvedOptions resolved_options(std::string_view key) const;

 private:
  friend class ConfigSession;
  ConfigReader(ReadPass& pass, ReadMapping& mapping) : pass_(pass), mapping_(mapping) {}

  /// Returns the record of `key`, filled in as if no value was written. Notes a required key that is missing.
  ReadKey& ask(std::string_view key, KeyShape shape);
  /// Notes that `node`, under `key` or an item of it, isn't what `record` expects.
  void misread(const ReadKey& record, const ConfigNode& node, const std::string& dotted);
  template <typename T, typename Parse>
  std::optional<T> take(ReadKey& record, Parse parse);
  template <typename T, typename Parse>
  std::optional<std::vector<T>> take_list(ReadKey& record, Parse parse);
  /// The name that `node` chooses. Notes a mistake and returns none if it chooses none.
  std::optional<std::string> chosen_name(const ReadKey& record, std::span<const ConfigChoice> choices,
                                         const ConfigNode& node);
  /// A name to suggest for options without a name: the default or the first name if it takes these options, else the
  /// first name that takes them.
  std::string name_of_options(const ReadKey& record, std::span<const ConfigChoice> choices, const ConfigNode& written);
  /// The keys that `choice` reads, a choice of the key of `record`.
  std::vector<std::string> option_keys(const ReadKey& record, const ConfigChoice& choice);
  /// Notes that item number `index` of a named list is neither a name alone nor a name in front of its options.
  void misread_item(const ReadKey& record, std::span<const ConfigChoice> choices, size_t index, const ConfigNode& item);
  /// Advice for an item that has a misspelled name beside the right one: linaer in {linear: 128, linaer: 64}. Else "".
  std::string misspelled_name(const ReadKey& record, std::span<const ConfigChoice> choices, const ConfigNode& item);
  /// The options `written` behind a name of a named list, with a shorthand expanded. Notes a mistake and returns null
  /// if they are neither options nor a shorthand.
  const ConfigNode* options_of(const ConfigChoice& choice, const ConfigNode& written, ReadMapping& mapping);
  ReadMapping& inner(ReadKey& record, size_t index, const ConfigNode* node);
  ReadMapping& stand_in(std::string_view key);

  ReadPass& pass_;
  ReadMapping& mapping_;
};

class ConfigSession {
 public:
  /// Reads `root` with `read`. Throws an error with exit code 78 with every mistake, one per line, in the order of the
  /// file. An Error that `read` throws passes through, unless another one waits for the end. If there are mistakes,
  /// they and the error's lines are thrown together with exit code 78.
  ConfigSession(const ConfigNode& root, const std::function<void(ConfigReader&)>& read);

  /// The resolved config as YAML, with every key and default. Reading it again gives the same run.
  std::string resolved_yaml() const;
  /// The resolved config as YAML, where a comment on each line says where the value came from.
  std::string resolved_yaml_with_origins() const;

  /// The JSON Schema (draft 2020-12) of what `read` reads, with the help texts as descriptions; two-space indentation.
  static std::string schema(std::string_view title, const std::function<void(ConfigReader&)>& read);

 private:
  std::string resolved_yaml_;
  std::string resolved_yaml_with_origins_;
};

}  // namespace dptrain
