#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain::train {

/// A number, and the name that TensorBoard shows it under.
struct TaggedScalar {
  std::string tag;  ///< those with the same beginning, up to a slash, are shown together
  double value = 0;
};

// Records of an event file, as TensorBoard reads it: an Event (TensorFlow's event.proto and summary.proto) in the frame
// of a TFRecord. `at_s`: when it is written, in seconds since 1970.

/// What a file begins with.
std::string version_record(double at_s);
/// A session begins with step `first_step`: of what was written before, this step and later ones no longer count. That
/// is so of all sessions but the first that TensorBoard reads of, which therefore has to be told of as well.
std::string session_record(double at_s, int64_t first_step);
/// What there is to tell of a step. Numbers are kept as f32.
std::string scalars_record(double at_s, int64_t step, const std::vector<TaggedScalar>& scalars);
/// A text in Markdown.
std::string text_record(double at_s, int64_t step, const std::string& tag, const std::string& text);

}  // namespace dptrain::train
