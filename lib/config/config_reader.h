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
  int64_t example = 1;  ///< for advice, where there is no default
};

struct NumberRule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclusive_min = false;  ///< the value must be over `min`, not equal to it
  bool exclusive_max = false;
  std::string_view help = {};
  double example = 0.1;  ///< for advice, where there is no default
};

/// One name that a key may take, with the options that come with it: a row of a registration table.
struct ConfigChoice {
  std::string name;
  std::string help = {};
  /// Reads the options of this name from the mapping that it was written in; may be empty.
  std::function<void(ConfigReader&)> read_options = {};
  /// In a named list, the option that may stand for them all: `linear: 128` is `linear: {features: 128}`.
  std::string shorthand = {};
};

struct NamedListRule {
  /// What such a list holds, `layers`: messages and the schema call it so. Where its options hold lists of the same
  /// name, the schema describes it once.
  std::string_view definition;
  bool required = true;
  bool may_be_empty = false;  ///< an absent one is, then
  std::string_view help = {};
  std::string_view example = {};  ///< for advice; by default the first name alone
};

/// Keys in the order read, and what they resolved to as YAML on one line: {"normalize", "{mean: [0.5], std: [1]}"}.
using ResolvedOptions = std::vector<std::pair<std::string, std::string>>;

/// Everything that reading a whole configuration collects: mistakes, the resolved values with their origins, the
/// schema.
class ConfigSession;
struct KeyShape;
struct ReadKey;
struct ReadMapping;
struct ReadPass;

/// Reads one mapping, key by key. What is read is also what is documented: the same calls that read a configuration
/// collect its mistakes, write down the resolved configuration, and describe the schema. A mistake is noted and a
/// harmless value returned, so that one pass finds all mistakes; ConfigSession throws them at its end.
///
/// Keys that nothing reads are mistakes, with the nearest name suggested. A key without a value, `seed:` or `seed:
/// null`, counts as absent. Several functions may read the same mapping, each its own keys; reading a key again is no
/// mistake.
class ConfigReader {
 public:
  int64_t integer(std::string_view key, std::optional<int64_t> otherwise, const IntegerRule& rule = {});
  std::optional<int64_t> optional_integer(std::string_view key, const IntegerRule& rule = {});
  double number(std::string_view key, std::optional<double> otherwise, const NumberRule& rule = {});
  std::optional<double> optional_number(std::string_view key, const NumberRule& rule = {});
  bool boolean(std::string_view key, std::optional<bool> otherwise, std::string_view help = {});
  std::string text(std::string_view key, std::optional<std::string> otherwise, std::string_view help = {});
  std::optional<std::string> optional_text(std::string_view key, std::string_view help = {});
  /// A path; a relative one is relative to the file that it was written in, or to the working directory in an override.
  std::optional<std::filesystem::path> optional_path(std::string_view key, std::string_view help = {});
  /// The same where one must be given.
  std::filesystem::path path(std::string_view key, std::string_view help = {});
  /// One such path, or a list of them; empty where the key isn't written.
  std::vector<std::filesystem::path> paths(std::string_view key, std::string_view help = {});
  /// One of `names`.
  std::string one_of(std::string_view key, std::span<const std::string> names, std::optional<std::string> otherwise,
                     std::string_view help = {});
  /// One integer, or a list of them.
  std::vector<int64_t> integers(std::string_view key, std::optional<std::vector<int64_t>> otherwise,
                                const IntegerRule& rule = {});
  /// One number, or a list of them.
  std::vector<double> numbers(std::string_view key, std::vector<double> otherwise, const NumberRule& rule = {});
  /// A list of texts, or one text with commas.
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> otherwise, std::string_view help = {});
  /// A name, or a mapping with `name:` and options: `strategy: ddp` or `strategy: {name: ddp, bucket_mb: 25}`. Calls
  /// the chosen row's `read_options` on that mapping and returns the name; with no `otherwise` the key is required. A
  /// mapping without `name:` takes its name from the one key that is itself a name: `init: {normal: 0.01}`.
  std::string named(std::string_view key, std::span<const ConfigChoice> choices, std::optional<std::string> otherwise,
                    std::string_view help = {});
  /// A mapping under `key`; where it is absent, `read` sees an empty one.
  void section(std::string_view key, const std::function<void(ConfigReader&)>& read, std::string_view help = {});
  /// A list of mappings under `key`: calls `read` for each, in order; absent is an empty list. How many there are.
  size_t sections(std::string_view key, const std::function<void(ConfigReader&)>& read, std::string_view help = {});
  /// A list, not an empty one unless the rule allows it, of names, each alone or in front of its options: `[relu, conv:
  /// {kernel: 5}]`. Calls the `read_options` of each item's row, in order.
  void named_list(std::string_view key, std::span<const ConfigChoice> choices, const NamedListRule& rule);
  /// Whether `word` stands under `key` instead of a value: `bucket_mb: auto`. With `by_default` also where the key is
  /// absent. Ask before reading the value, which otherwise would be a mistake:
  /// `word("bucket_mb", "auto", true) ? kAuto : number("bucket_mb", {}, {.min = 0})`.
  bool word(std::string_view key, std::string_view word, bool by_default);
  /// The keys that were written, for a mapping whose keys are the user's own, like hosts. While the schema is described
  /// there is one, `*`, that stands for all.
  std::vector<std::string> written_keys();

  /// Whether the key was written with a value.
  bool has(std::string_view key) const;
  /// What was written there, where it is a text, a number or a word; else "".
  std::string written(std::string_view key) const;
  /// Whether a key was written that nobody has asked for, all that may be written having been: it may be a misspelled
  /// one, so that what is missing isn't worth a sentence of its own.
  bool has_others() const;
  /// Notes a mistake about `key`: "<origin>: <key>: <expected>, got <got>; <advice>".
  void mistake(std::string_view key, std::string_view expected, std::string_view got, std::string_view advice);
  /// Notes the sentences of `error`, a mistake about `key`, after which nobody knows what values under the top's
  /// `measured` keys are measured by: mistake() notes nothing about these from here on. What is wrong with them by
  /// itself still is noted.
  void doubt(std::string_view key, const Error& error, std::span<const std::string_view> measured);
  /// Has `error` thrown once everything has been read; behind all mistakes, where there are some.
  void fail_at_end(const Error& error);
  /// "<origin>: <key>", the beginning of a message about the key, also where it wasn't written (then the mapping's
  /// origin).
  std::string where(std::string_view key) const;
  /// The beginning of a message about the mapping as a whole; one may be given after reading has ended.
  std::string where() const;
  /// True while the schema is described: nothing was written, every value returned is a default or a harmless one.
  bool describing() const;
  /// The default of `key`, which must have been read, follows from other keys or from the machine: the schema has none.
  void default_varies(std::string_view key);
  /// Replaces the value that `--dump-config` and config.yaml show for `key` by what it resolved to ("auto" -> "cpu:0").
  /// `value` is YAML (25, 'cpu:0', [1, 3], {name: ddp}) and stands for the whole value, options included; `origin` is
  /// shown as where it came from. The key must have been read.
  void resolve(std::string_view key, std::string_view value, std::string_view origin);
  /// The options that came with the name under `key`, defaults included, as config.yaml shows them; those that have no
  /// value are left out. Equal for what reads alike, however it was written. The key must have been read, by named().
  ResolvedOptions resolved_options(std::string_view key) const;

 private:
  friend class ConfigSession;
  ConfigReader(ReadPass& pass, ReadMapping& mapping) : pass_(pass), mapping_(mapping) {}

  /// The record of `key`, filled in as far as no value was written; notes a required key that is absent.
  ReadKey& ask(std::string_view key, KeyShape shape);
  /// Notes that `node`, under `key` or an item of it, isn't what `record` expects.
  void misread(const ReadKey& record, const ConfigNode& node, const std::string& dotted);
  template <typename T, typename Parse>
  std::optional<T> take(ReadKey& record, Parse parse);
  template <typename T, typename Parse>
  std::optional<std::vector<T>> take_list(ReadKey& record, Parse parse);
  /// The name that `node` chooses; notes a mistake and returns none where it chooses none.
  std::optional<std::string> chosen_name(const ReadKey& record, std::span<const ConfigChoice> choices,
                                         const ConfigNode& node);
  /// The default, or the first, or rather the first that takes these options.
  std::string name_of_options(const ReadKey& record, std::span<const ConfigChoice> choices, const ConfigNode& written);
  /// Notes that `item`, number `index` of a named list, isn't one name alone or in front of its options.
  void misread_item(const ReadKey& record, size_t index, const ConfigNode& item);
  /// The options `written` behind a name of a named list, a shorthand expanded; null, and noted, where they are
  /// neither.
  const ConfigNode* options_of(const ConfigChoice& choice, const ConfigNode& written, ReadMapping& mapping);
  ReadMapping& inner(ReadKey& record, size_t index, const ConfigNode* node);
  ReadMapping& stand_in(std::string_view key);

  ReadPass& pass_;
  ReadMapping& mapping_;
};

class ConfigSession {
 public:
  /// Reads `root` with `read`, throwing Error 78 with every mistake, a line each, in the order of the file.
  /// An Error that `read` throws passes through, unless another waited for the end; where there are mistakes, they and
  /// its lines are thrown as 78.
  ConfigSession(const ConfigNode& root, const std::function<void(ConfigReader&)>& read);

  /// The resolved configuration as YAML: every key, defaults included; reading it again gives the same experiment.
  std::string resolved_yaml() const;
  /// The same, each line ending in a comment with where its value came from.
  std::string resolved_yaml_with_origins() const;

  /// JSON Schema (draft 2020-12) of what `read` reads, with the descriptions given as help; two-space indentation.
  static std::string schema(std::string_view title, const std::function<void(ConfigReader&)>& read);

 private:
  std::string resolved_yaml_;
  std::string resolved_yaml_with_origins_;
};

}  // namespace dptrain
