#include "comm/process_pair.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace dptrain {
namespace {

constexpr double kPatience_s = 60;

}  // namespace

/// Bytes on their way to one of the two processes.
struct ProcessPair::Way {
  static constexpr uint64_t kRoom = uint64_t{1} << 20;
  std::atomic<uint64_t> written, read;
  std::array<std::byte, kRoom> bytes;
};

struct ProcessPair::Shared {
  static constexpr int kSigns = 1024;
  std::array<Way, 2> to;  // indexed by process
  std::array<std::atomic<bool>, kSigns> signs;
};

class ProcessPair::Wire final : public ProcessWire {
 public:
  Wire(ProcessPair& pair, int number) : pair_(pair), number_(number), mail_(pair.mailbox(number)) {}
  int process() const override { return pair_.process(); }
  int processes() const override { return 2; }
  int largest_tag() const override { return 1 << 30; }
  std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    if (to == process())
      mail_->put({to, to, tag}, {bytes.begin(), bytes.end()});
    else
      pair_.send(number_, tag, bytes);
    return std::make_unique<CopiedMessage>(static_cast<int64_t>(bytes.size()));
  }
  std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
    return mail_->receive({from, process(), tag}, bytes);
  }

 private:
  ProcessPair& pair_;
  int number_;
  std::shared_ptr<Mailbox> mail_;
};

ProcessPair* ProcessPair::instance() {
  static const auto pair = []() -> std::unique_ptr<ProcessPair> {
    const char* const variable = std::getenv(kVariable);
    if (variable == nullptr) return nullptr;
    const std::string text = variable;
    const size_t colon = text.rfind(':');
    return std::unique_ptr<ProcessPair>(new ProcessPair(text.substr(0, colon), std::stoi(text.substr(colon + 1))));
  }();
  return pair.get();
}

void ProcessPair::make_file(const std::filesystem::path& path) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
  std::ofstream{path};
  std::filesystem::resize_file(path, sizeof(Shared));
}

ProcessPair::ProcessPair(const std::filesystem::path& path, int process) : process_(process) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory =
      descriptor < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw Error(ExitCode::io, path.string() + " can't be mapped");
  ::close(descriptor);
  shared_ = static_cast<Shared*>(memory);
}

std::shared_ptr<ProcessWire> ProcessPair::new_wire() { return std::make_shared<Wire>(*this, ++wires_); }

std::string ProcessPair::exchange(const std::string& own) {
  send(0, 0, std::as_bytes(std::span(own)));
  std::string theirs(4096, '\0');
  const auto message =
      mailbox(0)->receive({other(), process_, 0}, std::as_writable_bytes(std::span(theirs.data(), theirs.size())));
  const auto begun = Clock::now();
  while (!message->is_done()) {
    if (seconds_since(begun) > kPatience_s) {
      // Ends the process, since each later test would wait as long.
      std::cerr << "the other process of the pair has not ended this test for " << kPatience_s << " s\n";
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  theirs.resize(static_cast<size_t>(message->bytes()));
  return theirs;
}

std::atomic<bool>& ProcessPair::new_sign() { return shared_->signs.at(static_cast<size_t>(signs_++)); }

std::shared_ptr<Mailbox> ProcessPair::mailbox(int wire) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Mailbox>& mail = mailboxes_[wire];
  if (!mail) mail = std::make_shared<Mailbox>([this] { move(); });
  return mail;
}

void ProcessPair::send(int wire, int tag, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    const Frame frame{.wire = wire, .tag = tag, .bytes = static_cast<int64_t>(bytes.size())};
    std::ranges::copy(std::as_bytes(std::span(&frame, 1)), std::back_inserter(out_));
    std::ranges::copy(bytes, std::back_inserter(out_));
  }
  move();
}

void ProcessPair::move() {
  struct Come {
    int wire;
    Mailbox::Box box;
    std::vector<std::byte> message;
  };
  // The lock keeps messages in the order in which they arrive.
  const std::lock_guard moving(moving_);
  std::vector<Come> come;
  {
    const std::lock_guard lock(mutex_);
    Way& out = shared_->to[static_cast<size_t>(other())];
    uint64_t written = out.written;
    while (!out_.empty() && written - out.read < Way::kRoom) {
      out.bytes[written++ % Way::kRoom] = out_.front();
      out_.pop_front();
    }
    out.written = written;
    Way& in = shared_->to[static_cast<size_t>(process_)];
    uint64_t read = in.read;
    for (const uint64_t end = in.written; read < end; ++read) in_.push_back(in.bytes[read % Way::kRoom]);
    in.read = read;
    size_t begin = 0;
    while (in_.size() - begin >= sizeof(Frame)) {
      Frame frame;
      std::memcpy(&frame, in_.data() + begin, sizeof(Frame));
      const size_t end = begin + sizeof(Frame) + static_cast<size_t>(frame.bytes);
      if (in_.size() < end) break;
      come.push_back(
          {frame.wire,
           {other(), process_, frame.tag},
           {in_.begin() + static_cast<ptrdiff_t>(begin + sizeof(Frame)), in_.begin() + static_cast<ptrdiff_t>(end)}});
      begin = end;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(begin));
  }
  for (Come& one : come) mailbox(one.wire)->put(one.box, std::move(one.message));
}

}  // namespace dptrain
