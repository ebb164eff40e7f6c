#include "nccl_shared.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

namespace dptrain::cuda_sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "dptrain-cuda-sim-nccl-";
constexpr std::size_t kHeadBytes = std::size_t{1} << 20;

std::string path_of(const std::string& id) { return (fs::temp_directory_path() / (kPrefix + id)).string(); }

std::size_t file_bytes(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return kHeadBytes + count * kMostBytes + count * count * kMostTransferBytes;
}

// The host by its name for NCCL; an unset name counts as a name.
std::size_t this_host() {
  const char* const id = std::getenv("NCCL_HOSTID");
  return std::hash<std::string>{}(id == nullptr ? "" : id);
}

// Removes files of processes that were killed before all ranks had entered.
void remove_stale_files() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const long maker = maker_of(name.substr(std::strlen(kPrefix)));
    if (maker > 0 && ::kill(static_cast<pid_t>(maker), 0) != 0 && errno == ESRCH) fs::remove(entry.path(), error);
  }
}

bool grow(int descriptor, std::size_t bytes) {
  struct stat now {};
  if (::fstat(descriptor, &now) != 0) return false;
  return static_cast<std::size_t>(now.st_size) >= bytes || ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0;
}

// A lock that one process holds at a time; the system releases it when the process ends.
class FileLock {
 public:
  explicit FileLock(int descriptor) : descriptor_(descriptor) { ::flock(descriptor_, LOCK_EX); }
  ~FileLock() { ::flock(descriptor_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::string new_unique_id() {
  static std::atomic<unsigned> made = 0;
  remove_stale_files();
  return std::to_string(::getpid()) + '-' + std::to_string(++made);
}

long maker_of(const std::string& id) { return std::strtol(id.c_str(), nullptr, 10); }

std::shared_ptr<SharedWorld> SharedWorld::open(const std::string& id, int ranks, bool make) {
  static_assert(sizeof(Head) <= kHeadBytes && std::atomic<std::uint64_t>::is_always_lock_free);
  if (ranks > kMostRanks) return nullptr;
  const std::string path = path_of(id);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
  if (descriptor < 0) return nullptr;
  void* memory = MAP_FAILED;
  // The file begins with zeros, which mean that no rank has entered. It never becomes shorter than another process made
  // it.
  if (grow(descriptor, file_bytes(ranks)))
    memory = ::mmap(nullptr, file_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<SharedWorld>(new SharedWorld(path, descriptor, ranks, memory));
}

SharedWorld::SharedWorld(std::string path, int descriptor, int ranks, void* memory)
    : path_(std::move(path)), descriptor_(descriptor), ranks_(ranks), head_(static_cast<Head*>(memory)) {}

SharedWorld::~SharedWorld() {
  ::munmap(head_, file_bytes(ranks_));
  ::close(descriptor_);
}

std::string SharedWorld::enter(int rank, int device) {
  const FileLock lock(descriptor_);
  int none = 0;
  if (!head_->ranks.compare_exchange_strong(none, ranks_) && none != ranks_)
    return "the ranks gave different sizes, " + std::to_string(none) + " and " + std::to_string(ranks_);
  for (int other = 0; other < ranks_; ++other) {
    if (head_->slots[other].device == 0) continue;
    if (other == rank) return "rank " + std::to_string(rank) + " is there twice";
    if (head_->slots[other].device == device + 1 && head_->slots[other].host == this_host())
      return "Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " + std::to_string(other) +
             " both on CUDA device " + std::to_string(device);
  }
  head_->slots[rank].host = this_host();
  head_->slots[rank].device = device + 1;
  if (complete()) ::unlink(path_.c_str());
  return {};
}

bool SharedWorld::complete() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (head_->slots[rank].device == 0) return false;
  return true;
}

void SharedWorld::fail(ncclResult_t error) {
  int none = ncclSuccess;
  head_->error.compare_exchange_strong(none, error);
  ::unlink(path_.c_str());  // no other process needs to open it
}

bool SharedWorld::may_give(std::uint64_t number) const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (head_->slots[rank].taken + 1 < number) return false;
  return true;
}

void SharedWorld::give(int rank, std::uint64_t number, const Call& call) {
  Slot& slot = head_->slots[rank];
  slot.call = call;
  if (const std::size_t bytes = send_bytes(call, rank, ranks_); bytes > 0) std::memcpy(data(rank), call.send, bytes);
  slot.given = number;
}

bool SharedWorld::all_gave(std::uint64_t number) const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (head_->slots[rank].given < number) return false;
  return true;
}

std::vector<Call> SharedWorld::calls(int own, const Call& call) const {
  std::vector<Call> all;
  for (int rank = 0; rank < ranks_; ++rank) {
    all.push_back(head_->slots[rank].call);
    all.back().send = data(rank);
    all.back().recv = rank == own ? call.recv : nullptr;
  }
  return all;
}

void SharedWorld::send(Pair pair, std::uint64_t number, const Call& call) {
  Line& own = line(pair);
  own.call = call;
  std::memcpy(data(pair), call.send, call.count * element_bytes(call.type));
  own.given = number;
}

Call SharedWorld::sent(Pair pair) const {
  Call call = line(pair).call;
  call.send = data(pair);
  return call;
}

char* SharedWorld::data(int rank) const {
  return reinterpret_cast<char*>(head_) + kHeadBytes + static_cast<std::size_t>(rank) * kMostBytes;
}

char* SharedWorld::data(Pair pair) const {
  return data(ranks_) + static_cast<std::size_t>(pair.from * ranks_ + pair.to) * kMostTransferBytes;
}

}  // namespace dptrain::cuda_sim
