#include "device/cpu_amx.h"

#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/lower_case.h"
#include "device/cpu_isa.h"

namespace dptrain {
namespace {

/// Whether CPUID reports tiles, their products of bf16, and conversions to bf16 in AVX-512.
bool named() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAvx512Bf16 = 1u << 5;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}

/// Asks Linux to let this process use tiles. Their registers are large, so Linux saves them only for processes that
/// ask.
bool permitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// Multiplies tiles of ones: 16 rows by 16 columns, each a sum of 32 products.
float product_of_ones() {
  const struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64};
    uint8_t rows[16] = {16, 16, 16};
  } configuration;
  alignas(64) std::array<uint16_t, 512> ones;
  alignas(64) std::array<float, 256> sums;
  ones.fill(0x3f80);
  __asm__ volatile(
      "ldtilecfg (%0)\n\t"
      "tilezero %%tmm0\n\t"
      "tileloadd (%1,%3,1), %%tmm1\n\t"
      "tileloadd (%1,%3,1), %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilestored %%tmm0, (%2,%3,1)\n\t"
      "tilerelease" ::"r"(&configuration),
      "r"(ones.data()), "r"(sums.data()), "r"(int64_t{64})
      : "memory");
  return *std::min_element(sums.begin(), sums.end());
}

sigjmp_buf before_trial;

/// Tries the instructions. A processor without tiles raises an illegal instruction, which ends the trial and not the
/// process.
bool tried() {
  struct sigaction jump = {}, before = {};
  jump.sa_handler = [](int) { siglongjmp(before_trial, 1); };
  if (::sigaction(SIGILL, &jump, &before) != 0) return false;
  volatile bool multiplied = false;
  if (sigsetjmp(before_trial, 1) == 0) multiplied = product_of_ones() == 32.f;
  ::sigaction(SIGILL, &before, nullptr);
  return multiplied;
}

}  // namespace

bool isa_cap_allows_amx(std::string_view value) {
  const std::string name = lower_case(value);
  if (cpu_isa_cap(value) != CpuIsa::avx512) return false;
  const bool below = name.starts_with("avx512_") || name.starts_with("avx10");
  return !below || name.find("amx") != std::string::npos;
}

bool cpu_has_amx() {
  static const bool has =
      cpu_isa() == CpuIsa::avx512 && isa_cap_allows_amx(isa_cap_of_environment()) && named() && permitted() && tried();
  return has;
}

}  // namespace dptrain
