// A process of a job, for job_test.cc. It does what its first argument says and ends like the program itself, with an
// error's exit code and sentence.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "comm/join_watch.h"
#include "comm/mpi_job.h"
#include "comm/process_exchange.h"

namespace dptrain {
namespace {

using Bytes = std::vector<std::byte>;

/// Bytes that differ from message to message.
Bytes pattern(size_t size, int message) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<size_t>(message) * 7);
  return bytes;
}

void wait(WireMessage& message) {
  const auto deadline = deadline_in(20);
  while (!message.is_done()) {
    DPTRAIN_CHECK(Clock::now() < deadline, "a message took over 20 s");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void expect_received(WireMessage& message, const Bytes& got, const Bytes& expected, const char* what) {
  wait(message);
  DPTRAIN_CHECK(message.bytes() == static_cast<int64_t>(expected.size()), "{}: expected {} bytes, got {}", what,
                expected.size(), message.bytes());
  DPTRAIN_CHECK(std::equal(expected.begin(), expected.end(), got.begin()), "{}: other bytes came", what);
}

/// Every process sends to every process, itself included, and receives from every process, all at once.
void exchange(ProcessWire& wire, size_t size, size_t room) {
  const int n = wire.processes(), own = wire.process();
  std::vector<std::unique_ptr<WireMessage>> messages;
  std::vector<Bytes> in, out;
  for (int other = 0; other < n; ++other) {
    in.push_back(Bytes(room));
    out.push_back(pattern(size, own * n + other));
  }
  for (int other = 0; other < n; ++other)
    messages.push_back(wire.start_send(out[static_cast<size_t>(other)], other, 3));
  for (int other = 0; other < n; ++other) {
    const auto receive = wire.start_receive(in[static_cast<size_t>(other)], other, 3);
    expect_received(*receive, in[static_cast<size_t>(other)], pattern(size, other * n + own), "an exchange");
  }
  for (auto& message : messages) wait(*message);
}

/// The process before sends four messages with two tags over two wires. Each receive must get its own message, in any
/// order.
void tell_apart(ProcessWire& a, ProcessWire& b) {
  const int n = a.processes(), to = (a.process() + 1) % n, from = (a.process() + n - 1) % n;
  const int tag = a.largest_tag();
  std::vector<Bytes> out;
  for (int i = 0; i < 4; ++i) out.push_back(pattern(100, i));
  std::vector<std::unique_ptr<WireMessage>> sends;
  sends.push_back(a.start_send(out[0], to, tag));
  sends.push_back(a.start_send(out[1], to, tag));
  sends.push_back(a.start_send(out[2], to, 0));
  sends.push_back(b.start_send(out[3], to, tag));
  std::vector<Bytes> in(4, Bytes(100));
  const auto of_other_wire = b.start_receive(in[3], from, tag);
  const auto of_other_tag = a.start_receive(in[2], from, 0);
  const auto first = a.start_receive(in[0], from, tag);
  const auto second = a.start_receive(in[1], from, tag);
  expect_received(*second, in[1], out[1], "the second of a tag");
  expect_received(*first, in[0], out[0], "the first of a tag");
  expect_received(*of_other_tag, in[2], out[2], "that of the other tag");
  expect_received(*of_other_wire, in[3], out[3], "that of the other wire");
  for (auto& send : sends) wait(*send);
}

void messages(Job& job) {
  const auto a = job.make_wire(), b = job.make_wire();
  for (const size_t size : {0u, 1u, 1000u, 3'000'000u}) {
    exchange(*a, size, size);
    exchange(*b, size, size + 77);
  }
  tell_apart(*a, *b);
  fmt::print("carried\n");
}

/// While ranks' long messages fill the network in both directions, another thread exchanges short ones over another
/// wire.
void pass(Job& job) {
  constexpr int kMessages = 12;
  ProcessExchange exchange(job.make_wire());
  const auto short_wire = job.make_wire();
  const int other = 1 - job.process(), first_tag = exchange.first_tag(exchange.next_group());
  std::atomic<bool> is_over = false;
  double longest_s = 0;
  std::thread short_ones([&] {
    std::array<std::byte, 16> in{}, out{};
    for (bool last = false; !last;) {
      last = is_over;
      out[0] = std::byte{last};
      const auto begun = Clock::now();
      const auto send = short_wire->start_send(out, other, 0);
      const auto receive = short_wire->start_receive(in, other, 0);
      wait(*receive);
      wait(*send);
      longest_s = std::max(longest_s, seconds_since(begun));
      last = last || in[0] != std::byte{0};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  std::vector<Bytes> in(kMessages, Bytes(4'000'000)), out(kMessages, Bytes(4'000'000));
  std::atomic<int> left = kMessages;
  const auto begun = Clock::now();
  for (size_t i = 0; i < kMessages; ++i) {
    const auto bytes = static_cast<int64_t>(out[i].size());
    exchange.start({.tag = first_tag + static_cast<int>(i),
                    .messages = {{.sends = true, .process = other, .data = out[i].data(), .bytes = bytes},
                                 {.sends = false, .process = other, .data = in[i].data(), .bytes = bytes}},
                    .on_done = [&left] { --left; },
                    .overdue = [](const std::vector<int>&) { return JobFailure{.sentence = "overdue"}; }});
  }
  while (left > 0) {
    DPTRAIN_CHECK(seconds_since(begun) < 30, "{} long messages took over 30 s", left.load());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const double all_s = seconds_since(begun);
  is_over = true;
  short_ones.join();
  fmt::print("{} {}\n", all_s, longest_s);
}

/// Prints who is in the job, as this process knows it.
void list(Job& job) {
  fmt::print("own {} {}\n", job.process(), ::getpid());
  for (const JobProcess& process : job.all()) fmt::print("{} {}\n", process.host, process.pid);
}

/// Process 1 sends more than process 0 has room for.
void too_long(Job& job) {
  const auto wire = job.make_wire();
  if (job.process() == 0) {
    Bytes room(10);
    wait(*wire->start_receive(room, 1, 5));
  } else {
    wait(*wire->start_send(pattern(11, 0), 0, 5));
  }
}

/// Process 1 reaches the end of the job later, and prints a line before.
void late(Job& job) {
  if (job.process() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::ofstream("came") << "yes";
  }
  job.finish(20);
  if (job.process() == 0) fmt::print("{}\n", std::ifstream("came").good() ? "after" : "before");
}

/// Process 1 never reaches the end of the job.
void never(Job& job) {
  if (job.process() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
  job.finish(0.3);
}

/// Ends with pending messages that no process will ever answer.
void give_up(Job& job) {
  const auto wire = job.make_wire();
  Bytes room(3'000'000);
  const auto kept = wire->start_receive(room, 1 - job.process(), 1);
  wire->start_send(room, 1 - job.process(), 2).reset();
  kept->is_done();
  fmt::print("leaving\n");
  std::fflush(stdout);
  job.leave(ExitCode::peer_lost);
}

int run(const std::string& what, double timeout_s, int largest_part_bytes) {
  std::optional<JoinWatch> joining;
  joining.emplace(JoinOptions{.timeout_s = timeout_s});
  const auto job = join_mpi_job({.join = {.timeout_s = timeout_s}, .largest_part_bytes = largest_part_bytes});
  joining.reset();
  const std::map<std::string, void (*)(Job&)> acts = {{"messages", messages}, {"list", list}, {"too_long", too_long},
                                                      {"pass", pass},         {"late", late}, {"never", never},
                                                      {"give_up", give_up}};
  try {
    acts.at(what)(*job);
    if (what != "late") job->finish(20);
  } catch (const Error& error) {
    fmt::print(stderr, "dptrain: {}\n", error.what());
    job->leave(error.code());
  }
  return 0;
}

}  // namespace
}  // namespace dptrain

int main(int, char** values) { return dptrain::run(values[1], std::atof(values[2]), std::atoi(values[3])); }
