#include "data/batch_loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "device/host_machine.h"

namespace dptrain {

/// The thread, and the state that it shares with the caller. Each start_epoch starts a new generation; the thread drops
/// the work of an older generation as soon as it notices.
class BatchLoader::Worker {
 public:
  Worker(std::shared_ptr<const Dataset> dataset, const BatchLoaderOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        split_(options.split ? *options.split : BatchSplit::even(static_cast<int>(options.devices.size()))),
        threads_(options.threads) {
    DPTRAIN_CHECK(options_.batch_size > 0 && options_.micro_batches > 0 && options_.batches_ahead > 0 &&
                      !options_.devices.empty(),
                  "a loader of {} samples a batch, {} ahead, for {} devices", options_.batch_size,
                  options_.batches_ahead, options_.devices.size());
    const auto end = options_.first_part + static_cast<int>(options_.devices.size());
    DPTRAIN_CHECK(options_.first_part >= 0 && end <= split_.parts(), "{} weights for parts {} to {}", split_.parts(),
                  options_.first_part, end - 1);
    thread_ = std::thread([this] { run(); });
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int64_t batches() const { return (dataset_->samples() + options_.batch_size - 1) / options_.batch_size; }

  void start_epoch(int64_t epoch, int64_t first_batch) {
    {
      const std::lock_guard lock(mutex_);
      ++generation_;
      epoch_ = epoch;
      first_batch_ = taken_ = first_batch;
      ready_.clear();
      failure_ = nullptr;
    }
    changed_.notify_all();
  }

  std::unique_ptr<Batch> next() {
    std::unique_lock lock(mutex_);
    DPTRAIN_CHECK(generation_ > 0, "a batch asked for before an epoch was started");
    if (taken_ >= batches()) return nullptr;
    // One of the two always comes: the thread catches whatever it throws.
    changed_.wait(lock, [&] { return !ready_.empty() || failure_ != nullptr; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    std::unique_ptr<Batch> batch = std::move(ready_.front());
    ready_.pop_front();
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  void wait_until_full() {
    std::unique_lock lock(mutex_);
    const int64_t wanted = std::min<int64_t>(options_.batches_ahead, batches() - taken_);
    changed_.wait(lock, [&] { return static_cast<int64_t>(ready_.size()) >= wanted || failure_ != nullptr; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  void run() noexcept {
    uint64_t generation = 0;
    for (;;) {
      int64_t epoch = 0, first_batch = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || generation_ != generation; });
        if (stop_) return;
        generation = generation_;
        epoch = epoch_;
        first_batch = first_batch_;
      }
      try {
        prepare_epoch(generation, epoch, first_batch);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (generation_ == generation) failure_ = std::current_exception();
      }
      changed_.notify_all();
    }
  }

  void prepare_epoch(uint64_t generation, int64_t epoch, int64_t first_batch) {
    const std::vector<int64_t> order = order_of(epoch);
    if (!read_ahead(order, generation)) return;
    for (int64_t first = first_batch * options_.batch_size; first < dataset_->samples(); first += options_.batch_size) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(
            lock, [&] { return abandoned(generation) || ready_.size() < static_cast<size_t>(options_.batches_ahead); });
      }
      std::unique_ptr<Batch> batch = prepare_batch({generation, epoch}, order, first);
      const std::lock_guard lock(mutex_);
      if (abandoned(generation)) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  }

  std::vector<int64_t> order_of(int64_t epoch) const {
    const EpochKey key{.seed = options_.seed, .epoch = epoch, .shuffle = options_.shuffle};
    if (options_.parts_of_processes.empty()) return epoch_order(dataset_->samples(), key);
    return partitioned_epoch_order(dataset_->samples(),
                                   {.batch_size = options_.batch_size,
                                    .micro_batches = options_.micro_batches,
                                    .split = split_,
                                    .parts_of_processes = options_.parts_of_processes},
                                   key);
  }

  /// In the first epoch, if images are in files, reads the samples whose images this process needs, in order; that is
  /// faster than reading them one by one. Returns false if the caller no longer wants the epoch.
  bool read_ahead(const std::vector<int64_t>& order, uint64_t generation) {
    if (std::exchange(has_read_ahead_, true)) return true;
    const auto* images = dynamic_cast<const ImageDataset*>(dataset_.get());
    if (images == nullptr) return true;
    constexpr int64_t kStep = 4096;
    const auto [begin, end] = own_run(order);
    // Images that need more memory than there is would be evicted before they are asked for.
    if ((end - begin) * images->image_shape().elements() > host_memory_bytes() / 2) return true;
    for (int64_t first = begin; first < end; first += kStep) {
      {
        const std::lock_guard lock(mutex_);
        if (abandoned(generation)) return false;
      }
      images->read_ahead(first, std::min(first + kStep, end));
    }
    return true;
  }

  /// The smallest run of samples that includes every image that an epoch of this order loads here. If each process has
  /// its own part of the data set, it is that part.
  std::pair<int64_t, int64_t> own_run(const std::vector<int64_t>& order) const {
    int64_t begin = dataset_->samples(), end = 0;
    for (int64_t first = 0; first < dataset_->samples(); first += options_.batch_size) {
      const int64_t batch = std::min(options_.batch_size, dataset_->samples() - first);
      for (int64_t m = 0; m < options_.micro_batches; ++m) {
        const int64_t micro = first + m * batch / options_.micro_batches;
        const int64_t samples = first + (m + 1) * batch / options_.micro_batches - micro;
        for (size_t device = 0; device < options_.devices.size(); ++device) {
          const Device* reads = options_.devices[device];
          if (reads == nullptr || reads->kind() != DeviceKind::cpu || !reads->computes()) continue;
          const auto [from, to] = split_.range(options_.first_part + static_cast<int>(device), samples);
          for (int64_t at = micro + from; at < micro + to; ++at) {
            begin = std::min(begin, order[as_size(at)]);
            end = std::max(end, order[as_size(at)] + 1);
          }
        }
      }
    }
    return {begin, end};
  }

  /// The epoch in preparation.
  struct Epoch {
    uint64_t generation = 0;
    int64_t number = 0;
  };

  /// The batch that begins at `first`; null if the caller no longer wants it.
  std::unique_ptr<Batch> prepare_batch(const Epoch& epoch, const std::vector<int64_t>& order, int64_t first) {
    auto batch = std::make_unique<Batch>();
    batch->first_position = first;
    batch->samples = std::min(options_.batch_size, dataset_->samples() - first);
    const std::span<const int64_t> samples(order.data() + first, static_cast<size_t>(batch->samples));
    for (int64_t m = 0; m < options_.micro_batches; ++m) {
      const int64_t begin = m * batch->samples / options_.micro_batches;
      const int64_t end = (m + 1) * batch->samples / options_.micro_batches;
      if (begin == end) continue;
      auto micro = prepare_micro_batch(epoch, samples.subspan(as_size(begin), as_size(end - begin)));
      if (!micro) return nullptr;
      add_counts(micro->counts, batch->counts);
      batch->micro_batches.push_back(*std::move(micro));
    }
    return batch;
  }

  std::optional<MicroBatch> prepare_micro_batch(const Epoch& epoch, std::span<const int64_t> samples) {
    MicroBatch micro{.samples = static_cast<int64_t>(samples.size()), .counts = {}, .parts = {}};
    const PartOptions options{.augmentations = options_.augmentations, .epoch = epoch.number, .threads = &threads_};
    for (int p = 0; p < split_.parts(); ++p) {
      {
        const std::lock_guard lock(mutex_);
        if (abandoned(epoch.generation)) return std::nullopt;
      }
      const auto [begin, end] = split_.range(p, micro.samples);
      const auto of_part = samples.subspan(as_size(begin), as_size(end - begin));
      const int device = p - options_.first_part;
      if (device < 0 || device >= static_cast<int>(options_.devices.size())) {
        add_counts(counted_labels(*dataset_, of_part, options), micro.counts);
        continue;
      }
      Device* const reads_images = options_.devices[as_size(device)];
      micro.parts.push_back(reads_images != nullptr ? load_part(*dataset_, of_part, *reads_images, options)
                                                    : load_part_without_images(*dataset_, of_part, options));
      add_counts(counted_labels(micro.parts.back()), micro.counts);
    }
    return micro;
  }

  static void add_counts(const std::vector<int64_t>& counts, std::vector<int64_t>& sums) {
    sums.resize(counts.size());
    for (size_t k = 0; k < counts.size(); ++k) sums[k] += counts[k];
  }

  static size_t as_size(int64_t value) { return static_cast<size_t>(value); }

  /// Called with the mutex held.
  bool abandoned(uint64_t generation) const { return stop_ || generation_ != generation; }

  const std::shared_ptr<const Dataset> dataset_;
  const BatchLoaderOptions options_;
  const BatchSplit split_;

  // The thread alone uses these two.
  SampleThreads threads_;
  bool has_read_ahead_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;  ///< signals changes of the members below
  bool stop_ = false;
  uint64_t generation_ = 0;
  int64_t epoch_ = 0;
  int64_t first_batch_ = 0;
  std::deque<std::unique_ptr<Batch>> ready_;
  int64_t taken_ = 0;  ///< batches taken of the epoch, including those before the first
  std::exception_ptr failure_;

  std::thread thread_;
};

BatchLoader::BatchLoader(std::shared_ptr<const Dataset> dataset, const BatchLoaderOptions& options)
    : worker_(std::make_unique<Worker>(std::move(dataset), options)) {}

BatchLoader::~BatchLoader() = default;

int64_t BatchLoader::batches_per_epoch() const { return worker_->batches(); }

void BatchLoader::start_epoch(int64_t epoch, int64_t first_batch) { worker_->start_epoch(epoch, first_batch); }

std::unique_ptr<Batch> BatchLoader::next() { return worker_->next(); }

void BatchLoader::wait_until_full() { worker_->wait_until_full(); }

}  // namespace dptrain
