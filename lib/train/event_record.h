#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain::train {

/// A number, and the name under which TensorBoard shows it.
struct TaggedScalar {
  std::string tag;  ///< TensorBoard shows tags together that are equal up to a slash
  double value = 0;
};

// Records of an event file that TensorBoard reads: an Event (TensorFlow's event.proto and summary.proto) in the frame
// of a TFRecord. `at_s`: the time of writing, in seconds since 1970.

/// The record that a file begins with.
std::string version_record(double at_s);
/// Marks the beginning of a session with step `first_step`: TensorBoard drops earlier records of this step and of later
/// ones. It does so for every session except the first one that it reads, so the first session needs a record as well.
std::string session_record(double at_s, int64_t first_step);
/// The numbers of a step. They are stored as f32.
std::string scalars_record(double at_s, int64_t step, const std::vector<TaggedScalar>& scalars);
/// A text in Markdown.
std::string text_record(double at_s, int64_t step, const std::string& tag, const std::string& text);

}  // namespace dptrain::train
