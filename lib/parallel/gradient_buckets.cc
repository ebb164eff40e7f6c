#include "parallel/gradient_buckets.h"

#include <algorithm>

#include "base/check.h"

namespace dptrain::parallel {
namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;
constexpr double kAutomaticMb = 25;
constexpr double kAutomaticLastShare = 0.1;
// With deferred updates the next forward pass waits for each bucket when it reaches the bucket's layers. Smaller
// buckets shorten these waits, but every collective has a cost of its own.
constexpr double kDeferredShare = 1.0 / 16;
constexpr double kLeastDeferredMb = 0.0625;

int64_t bytes_of(const nn::Model& model, int first, int end) {
  const auto& parameters = model.parameters();
  const int64_t total = model.elements();
  const int64_t from = model.offset(*parameters[static_cast<size_t>(first)]);
  const int64_t to =
      end < static_cast<int>(parameters.size()) ? model.offset(*parameters[static_cast<size_t>(end)]) : total;
  return 4 * (to - from);
}

/// Returns the part of a bucket that each owner sums. Without owners every rank sums the whole bucket.
std::vector<PlainSum::Part> parts_of(const Bucket& bucket, const std::vector<OwnedRange>& owners) {
  if (owners.empty()) return {{.begin = bucket.begin, .end = bucket.end}};
  std::vector<PlainSum::Part> parts;
  for (const OwnedRange& range : owners) {
    const int64_t begin = std::max(bucket.begin, range.begin), end = std::min(bucket.end, range.end);
    if (begin < end) parts.push_back({.begin = begin, .end = end, .owner = range.owner});
  }
  return parts;
}

/// Leaves each rank its own gradients.
class NoSum final : public BucketSum {
 public:
  void start() override {}
  void finish() override {}
};

/// Returns how many of the first parameters fit in `limit_bytes`; at least one.
int prefix_within(const nn::Model& model, int64_t limit_bytes) {
  const int count = static_cast<int>(model.parameters().size());
  int end = 1;
  while (end < count && bytes_of(model, 0, end + 1) <= limit_bytes) ++end;
  return end;
}

}  // namespace

std::vector<Bucket> plan_buckets(const nn::Model& model, const BucketOptions& options) {
  const int count = static_cast<int>(model.parameters().size());
  const bool automatic = options.bucket_mb == 0;
  const auto all_bytes = static_cast<double>(bytes_of(model, 0, count));
  const double automatic_mb = options.defer_updates
                                  ? std::clamp(kDeferredShare * all_bytes / kBytesPerMb, kLeastDeferredMb, kAutomaticMb)
                                  : kAutomaticMb;
  const double limit_mb = automatic ? automatic_mb : options.bucket_mb;
  const auto share = static_cast<int64_t>(std::min(kAutomaticLastShare * all_bytes, limit_mb * kBytesPerMb));
  const int last_bucket_end = automatic && count > 1 ? prefix_within(model, share) : 0;

  std::vector<Bucket> buckets;
  const auto add = [&](int first, int end) {
    const int64_t begin = model.offset(*model.parameters()[static_cast<size_t>(first)]);
    buckets.push_back({.first_parameter = first,
                       .end_parameter = end,
                       .begin = begin,
                       .end = begin + bytes_of(model, first, end) / 4});
  };
  for (int end = count; end > last_bucket_end;) {
    const double mb = buckets.empty() ? std::min(options.first_bucket_mb, limit_mb) : limit_mb;
    const auto limit_bytes = static_cast<int64_t>(mb * kBytesPerMb);
    int first = end - 1;
    while (first > last_bucket_end && bytes_of(model, first - 1, end) <= limit_bytes) --first;
    add(first, end);
    end = first;
  }
  if (last_bucket_end > 0) add(0, last_bucket_end);
  return buckets;
}

GradientBuckets::GradientBuckets(nn::Model& model, Communicator& communicator, const BucketOptions& options,
                                 const std::vector<OwnedRange>& owners)
    : GradientBuckets(model, options, [&](const Bucket& bucket, int priority) {
        return std::make_unique<PlainSum>(model, communicator, parts_of(bucket, owners), priority);
      }) {}

GradientBuckets::GradientBuckets(const nn::Model& model, const BucketOptions& options, const MakeSum& make)
    : overlap_(options.overlap),
      buckets_(plan_buckets(model, options)),
      bucket_of_parameter_(model.parameters().size()),
      missing_(buckets_.size()) {
  for (const Bucket& bucket : buckets_) {
    const bool left_out = options.leave_out_last && bucket.first_parameter == 0;
    // The next forward pass needs the last bucket first. All priorities are negative, so that any other exchange of the
    // ranks goes first.
    const int priority = options.defer_updates ? static_cast<int>(sums_.size()) - count() : 0;
    if (left_out)
      sums_.push_back(std::make_unique<NoSum>());
    else
      sums_.push_back(make(bucket, priority));
  }
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (int p = buckets_[b].first_parameter; p < buckets_[b].end_parameter; ++p)
      bucket_of_parameter_[static_cast<size_t>(p)] = static_cast<int>(b);
}

void GradientBuckets::begin_step() {
  for (size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].end_parameter - buckets_[b].first_parameter;
  next_ = 0;
}

void GradientBuckets::gradient_ready(const Parameter& parameter) {
  --missing_[static_cast<size_t>(bucket_of_parameter_[static_cast<size_t>(parameter.index())])];
  if (overlap_) start_complete_buckets();
}

void GradientBuckets::start_complete_buckets() {
  for (; next_ < buckets_.size() && missing_[next_] == 0; ++next_) {
    sums_[next_]->start();
    if (next_ > 0) sums_[next_ - 1]->go_on();
  }
}

void GradientBuckets::start_all() {
  start_complete_buckets();
  DPTRAIN_CHECK(next_ == buckets_.size(), "bucket {} of {} has parameters without gradients", next_, buckets_.size());
}

void GradientBuckets::finish() {
  start_all();
  for (const auto& sum : sums_) sum->finish();
}

void GradientBuckets::reduce_all() {
  begin_step();
  std::ranges::fill(missing_, 0);
  finish();
}

void GradientBuckets::finish_apart(const std::function<void()>& between) {
  for (const auto& sum : sums_) {
    sum->start();
    between();
    sum->go_on();
    between();
    sum->finish();
    between();
  }
  next_ = buckets_.size();
}

}  // namespace dptrain::parallel
