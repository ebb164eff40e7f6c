// CPU workers: names, threads, memory of their own, and caps on their instruction set.

#include "device/cpu_device.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "device/buffer.h"
#include "device/cpu_amx.h"
#include "device/cpu_bf16.h"
#include "device/cpu_isa.h"
#include "device/host_machine.h"
#include "device/parallel_for.h"
#include "support/expect_error.h"
#include "support/sanitizer.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

TEST(CpuDevice, KnowsItsNameAndRank) {
  const auto device = open_device({DeviceKind::cpu, 3}, {.rank = 2, .threads = 4});
  EXPECT_EQ(device->name(), "cpu:3");
  EXPECT_EQ(device->name_with_rank(), "cpu:3 (rank 2)");
  EXPECT_EQ(device->rank(), 2);
  EXPECT_EQ(device->threads(), 4);
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
}

TEST(CpuDevice, TheSameOneTwiceHasMemoryTwice) {
  const auto first = testing::test_device(1, 0, 0), second = testing::test_device(1, 0, 1);
  const Buffer buffer(*first, 1000, MemoryPurpose::weights);
  EXPECT_GE(first->allocator().in_use()[MemoryPurpose::weights], 1000);
  EXPECT_EQ(second->allocator().in_use().total_bytes(), 0);
}

TEST(CpuDevice, KeepsItsMemoryLimit) {
  const auto device = open_device({DeviceKind::cpu, 1}, {.memory_limit_bytes = 1 << 20});
  testing::expect_error(ExitCode::device, {"cpu:1", "limit of 1048576"},
                        [&] { const Buffer buffer(*device, 2 << 20, MemoryPurpose::weights); });
}

TEST(CpuDevice, WorkersTogetherTakeNoMoreThanTheMachineHas) {
  const auto first = testing::test_device(1, 0, 0), second = testing::test_device(1, 0, 1);
  ASSERT_LE(available_memory_bytes(), host_memory_bytes());
  if (testing::kShadowedMemory) GTEST_SKIP() << "a sanitizer's shadow of so much memory takes memory";
  if (available_memory_bytes() < host_memory_bytes() / 4) GTEST_SKIP() << "three quarters of the memory are in use";
  const int64_t most = available_memory_bytes() / 5 * 3;  // these bytes are never written to
  {
    const Buffer buffer(*first, most, MemoryPurpose::activations);
    testing::expect_error(
        ExitCode::device,
        {"cpu:0", "out of memory", "for weights", "that were free for all workers", "a smaller model"},
        [&] { const Buffer other(*second, most, MemoryPurpose::weights); });
  }
  EXPECT_NO_THROW(const Buffer other(*second, most, MemoryPurpose::weights));
}

TEST(CpuDevice, FillsAndCopiesLargeBlocks) {
  // Above 4 MiB memory is allocated in huge pages.
  const auto device = testing::test_device();
  const int64_t bytes = 5 << 20;
  const Buffer a(*device, bytes, MemoryPurpose::workspace), b(*device, bytes, MemoryPurpose::workspace);
  device->fill_zero(a.data(), bytes);
  static_cast<char*>(a.data())[bytes - 1] = 7;
  device->copy(b.data(), a.data(), bytes);
  EXPECT_EQ(static_cast<char*>(b.data())[0], 0);
  EXPECT_EQ(static_cast<char*>(b.data())[bytes - 1], 7);
}

TEST(CpuDevice, ExchangesWithTheHost) {
  const auto device = testing::test_device();
  const Buffer buffer(*device, 16, MemoryPurpose::workspace);
  const std::vector<int> sent = {1, 2, 3, 4};
  device->upload(buffer.data(), sent.data(), 16);
  std::vector<int> received(4);
  device->download(received.data(), buffer.data(), 16);
  device->synchronize();
  EXPECT_EQ(received, sent);
  device->upload(buffer.data(), std::vector<int>().data(), 0);  // as for a batch without samples
}

TEST(CpuDevice, KeepsOneAttachedStateOfAType) {
  struct Counter {
    explicit Counter(Device& device) : owner(&device) {}
    Device* owner;
    int count = 0;
  };
  const auto device = testing::test_device(), other = testing::test_device();
  ++device->attached<Counter>().count;
  ++device->attached<Counter>().count;
  EXPECT_EQ(device->attached<Counter>().count, 2);
  EXPECT_EQ(device->attached<Counter>().owner, device.get());
  EXPECT_EQ(other->attached<Counter>().count, 0);
}

TEST(OpenDevice, RefusesWhatItCannotComputeOn) {
  testing::expect_error(ExitCode::device, {"cuda:63", "--devices cpu:0-1"}, [] {
    open_device({DeviceKind::cuda, 63});
  });
}

TEST(Machine, HasCoresMemoryAndAName) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(host_memory_bytes(), int64_t{1} << 28);
  EXPECT_FALSE(cpu_model_name().empty());
}

TEST(CpuIsa, IsCappedByOneDnnsNames) {
  for (const char* name : {"SSE41", "AVX", "sse41"}) EXPECT_EQ(cpu_isa_cap(name), CpuIsa::baseline) << name;
  for (const char* name : {"AVX2", "AVX2_VNNI", "avx2", "AVX2_VNNI_2"})
    EXPECT_EQ(cpu_isa_cap(name), CpuIsa::avx2) << name;
  for (const char* name : {"AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16", "AVX512_CORE_AMX", "ALL", "DEFAULT",
                           "AVX3", "AVX2 ", ""})
    EXPECT_EQ(cpu_isa_cap(name), CpuIsa::avx512) << name;
}

TEST(CpuIsa, AmxIsCappedByOneDnnsNames) {
  for (const char* name : {"SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16", "avx512_core_fp16",
                           "AVX512_MIC_4OPS", "AVX10_1_512"})
    EXPECT_FALSE(isa_cap_allows_amx(name)) << name;
  for (const char* name : {"AVX512_CORE_AMX", "avx512_core_amx_fp16", "AVX10_1_512_AMX", "ALL", "DEFAULT", ""})
    EXPECT_TRUE(isa_cap_allows_amx(name)) << name;
}

TEST(CpuIsa, TheTrialOfAmxLeavesSignalsAsTheyWere) {
  const bool has = cpu_has_amx();
  struct sigaction now = {};
  ASSERT_EQ(::sigaction(SIGILL, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  EXPECT_EQ(has, cpu_bf16_unit() == Bf16Unit::amx);
}

TEST(CpuIsa, PairsOfBf16AreCappedByOneDnnsNames) {
  for (const char* name : {"SSE41", "AVX2", "AVX512_CORE", "avx512_core_vnni", "AVX512_MIC"})
    EXPECT_FALSE(isa_cap_allows_bf16(name)) << name;
  for (const char* name : {"AVX512_CORE_BF16", "avx512_core_fp16", "AVX512_CORE_AMX", "AVX10_1_512", "ALL", ""})
    EXPECT_TRUE(isa_cap_allows_bf16(name)) << name;
}

TEST(CpuIsa, InstructionsNameTheUnitOfBf16) {
  const std::map<Bf16Unit, std::string> units = {
      {Bf16Unit::none, ""}, {Bf16Unit::avx512, " and bf16"}, {Bf16Unit::amx, " and amx"}};
  EXPECT_EQ(cpu_instructions(), cpu_isa_name(cpu_isa()) + units.at(cpu_bf16_unit()));
  EXPECT_TRUE(cpu_bf16_unit() == Bf16Unit::none || cpu_isa() == CpuIsa::avx512);
}

TEST(CpuIsa, HasNames) {
  EXPECT_STREQ(cpu_isa_name(CpuIsa::baseline), "baseline");
  EXPECT_STREQ(cpu_isa_name(CpuIsa::avx2), "avx2");
  EXPECT_STREQ(cpu_isa_name(CpuIsa::avx512), "avx512");
}

}  // namespace
}  // namespace dptrain
