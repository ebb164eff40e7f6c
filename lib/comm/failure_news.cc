#include "comm/failure_news.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace dptrain {
namespace {

struct Header {
  int64_t step = -1;
  int64_t checkpoint = -1;
  int64_t steps_lost = -1;
  double detected_s = 0;
  int32_t process = 0;  ///< the process that reported the failure
  int32_t of = -1;      ///< the process that failed
  int32_t code = 0;
  uint32_t length = 0;            ///< of the sentence
  uint32_t operation_length = 0;  ///< of the operation's name, which follows the sentence
  uint32_t gone_count = 0;
  std::array<int32_t, 64> gone = {};  ///< more than this are found missing in time anyway
};

static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) < FailureNews::kBytes);

}  // namespace

void FailureNews::write(const KnownFailure& known, const std::set<int>& gone) {
  const JobFailure& failure = known.failure;
  Header header{.step = failure.step,
                .checkpoint = failure.checkpoint,
                .steps_lost = failure.steps_lost,
                .detected_s = failure.detected_s,
                .process = known.process,
                .of = failure.process,
                .code = static_cast<int32_t>(failure.code)};
  const std::string text = failure.sentence + failure.operation;
  const size_t length = std::min(text.size(), kBytes - sizeof(Header));
  header.length = static_cast<uint32_t>(std::min(failure.sentence.size(), length));
  header.operation_length = static_cast<uint32_t>(length - header.length);
  for (const int process : gone)
    if (header.gone_count < header.gone.size()) header.gone[header.gone_count++] = process;
  std::memcpy(bytes.data(), &header, sizeof(Header));
  std::memcpy(bytes.data() + sizeof(Header), text.data(), length);
}

KnownFailure FailureNews::read(std::set<int>& gone) const {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  for (size_t i = 0; i < std::min<size_t>(header.gone_count, header.gone.size()); ++i) gone.insert(header.gone[i]);
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof(Header), kBytes - sizeof(Header));
  const size_t length = std::min<size_t>(header.length, text.size());
  return {.process = header.process,
          .failure = {.code = static_cast<ExitCode>(header.code),
                      .sentence = text.substr(0, length),
                      .process = header.of,
                      .step = header.step,
                      .operation = text.substr(length, header.operation_length),
                      .checkpoint = header.checkpoint,
                      .steps_lost = header.steps_lost,
                      .detected_s = header.detected_s}};
}

}  // namespace dptrain
