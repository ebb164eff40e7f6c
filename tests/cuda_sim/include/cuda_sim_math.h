// The arithmetic of device code that C++ lacks: rounded operations, bit casts, loads with a cache hint, min and max.
// Only cuda_sim_device.h includes this file.
#pragma once

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}

// Macros where glibc already declares the name (as C functions it doesn't export).
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdividef(float x, float y) { return x / y; }
/// Keeps the compiler from fusing the computation of x with what is computed from x. A GPU's compiler doesn't fuse
/// these functions' arguments and results either.
template <class T>
inline T cuda_sim_rounded(T x) {
  asm("" : "+x"(x));
  return x;
}
inline float __fadd_rn(float x, float y) { return cuda_sim_rounded(x) + cuda_sim_rounded(y); }
inline float __fsub_rn(float x, float y) { return cuda_sim_rounded(x) - cuda_sim_rounded(y); }
inline float __fmul_rn(float x, float y) { return cuda_sim_rounded(x * y); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return cuda_sim_rounded(x) + cuda_sim_rounded(y); }
inline double __dsub_rn(double x, double y) { return cuda_sim_rounded(x) - cuda_sim_rounded(y); }
inline double __dmul_rn(double x, double y) { return cuda_sim_rounded(x * y); }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
inline int __float2int_ru(float x) { return static_cast<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return static_cast<unsigned>(nearbyintf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(x) * y) >> 64);
}

// CUDA's overloads for mixed types: the result has C++'s common type, and of a NaN and a number the number is returned.
namespace dptrain::cuda_sim {
template <typename A, typename B>
inline constexpr bool kBothArithmetic = std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>;
}
template <typename A, typename B>
requires dptrain::cuda_sim::kBothArithmetic<A, B>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<decltype(+a), decltype(+b)>;
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  return x != x ? y : (y < x ? y : x);
}
template <typename A, typename B>
requires dptrain::cuda_sim::kBothArithmetic<A, B>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<decltype(+a), decltype(+b)>;
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  return x != x ? y : (x < y ? y : x);
}
