#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

// What an unquoted scalar means here. This is narrower than YAML: 010, 0x10, 1_000, yes and .inf are neither numbers
// nor booleans, because readers of YAML disagree about them (YAML 1.1 reads 010 as 8, and `no` as false).

/// An integer of the form -?(0|[1-9][0-9]*) that fits into 64 bits.
std::optional<int64_t> plain_integer(std::string_view text);
/// A finite decimal number: 1, 0.5, .5, 1e-3.
std::optional<double> plain_number(std::string_view text);
/// The boolean true or false.
std::optional<bool> plain_boolean(std::string_view text);

/// `text` as a one-line YAML scalar that any reader of YAML takes for this text. Quoted if it would mean something
/// else.
std::string yaml_text(std::string_view text);
/// An unquoted scalar as it was written, so that 1 stays a number. Quoted only if its characters would break the line.
std::string yaml_plain(std::string_view text);
/// The parts between the commas, without spaces around them. Nothing if a part is empty.
std::optional<std::vector<std::string>> texts_between_commas(std::string_view text);

/// `value`, which is finite, with the fewest digits that read back as the same double.
std::string yaml_number(double value);

}  // namespace dptrain
