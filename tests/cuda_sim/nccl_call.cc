#include "nccl_call.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace dptrain::cuda_sim {
namespace {

// NCCL promises no order of summation. Here the ranks are added one after the other, beginning with another rank in
// each chunk, and every partial sum is rounded to the data's type.
constexpr std::size_t kChunk = 64;

template <typename T>
T combine(T a, T b, ncclRedOp_t op) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(combine(__half2float(a), __half2float(b), op));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(combine(__bfloat162float(a), __bfloat162float(b), op));
  } else {
    switch (op) {
      case ncclProd: return static_cast<T>(a * b);
      case ncclMax: return a != a ? a : (a < b || b != b ? b : a);
      case ncclMin: return a != a ? a : (b < a || b != b ? b : a);
      default: return static_cast<T>(a + b);
    }
  }
}

template <typename T>
T divide(T a, int ranks) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(__half2float(a) / static_cast<float>(ranks));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(__bfloat162float(a) / static_cast<float>(ranks));
  } else {
    return static_cast<T>(a / static_cast<T>(ranks));
  }
}

template <typename T>
void reduce_as(const std::vector<Call>& calls, std::size_t elements, char* result) {
  auto* out = reinterpret_cast<T*>(result);
  const std::size_t ranks = calls.size();
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t first = (i / kChunk + 1) % ranks;
    T value = static_cast<const T*>(calls[first].send)[i];
    for (std::size_t r = 1; r < ranks; ++r) {
      value = combine(value, static_cast<const T*>(calls[(first + r) % ranks].send)[i], calls[0].op);
    }
    out[i] = calls[0].op == ncclAvg ? divide(value, static_cast<int>(ranks)) : value;
  }
}

std::vector<char> reduce(const std::vector<Call>& calls, std::size_t elements) {
  std::vector<char> result(elements * element_bytes(calls[0].type));
  char* out = result.data();
  switch (calls[0].type) {
    case ncclInt8: reduce_as<std::int8_t>(calls, elements, out); break;
    case ncclUint8: reduce_as<std::uint8_t>(calls, elements, out); break;
    case ncclInt32: reduce_as<std::int32_t>(calls, elements, out); break;
    case ncclUint32: reduce_as<std::uint32_t>(calls, elements, out); break;
    case ncclInt64: reduce_as<std::int64_t>(calls, elements, out); break;
    case ncclUint64: reduce_as<std::uint64_t>(calls, elements, out); break;
    case ncclFloat16: reduce_as<__half>(calls, elements, out); break;
    case ncclFloat64: reduce_as<double>(calls, elements, out); break;
    case ncclBfloat16: reduce_as<__nv_bfloat16>(calls, elements, out); break;
    default: reduce_as<float>(calls, elements, out);
  }
  return result;
}

// `to` is null where another process writes it.
void put(void* to, const char* from, std::size_t bytes) {
  if (bytes > 0 && to != nullptr) std::memcpy(to, from, bytes);
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

std::size_t send_bytes(const Call& call, int rank, int ranks) {
  const std::size_t bytes = call.count * element_bytes(call.type);
  if (call.kind == CallKind::kRecv || (call.kind == CallKind::kBroadcast && rank != call.peer)) return 0;
  return call.kind == CallKind::kReduceScatter ? bytes * static_cast<std::size_t>(ranks) : bytes;
}

std::size_t recv_bytes(const Call& call, int rank, int ranks) {
  const std::size_t bytes = call.count * element_bytes(call.type);
  if (call.kind == CallKind::kSend || (call.kind == CallKind::kReduce && rank != call.peer)) return 0;
  return call.kind == CallKind::kAllGather ? bytes * static_cast<std::size_t>(ranks) : bytes;
}

std::string describe(const Call& call) {
  constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce", "Send", "Recv"};
  return std::string(kNames[static_cast<int>(call.kind)]) + "(count " + std::to_string(call.count) + ", type " +
         std::to_string(call.type) + ", op " + std::to_string(call.op) + ", root or peer " + std::to_string(call.peer) +
         ')';
}

bool match(const Call& a, const Call& b) {
  if (a.count != b.count || a.type != b.type) return false;
  if (a.kind == CallKind::kSend || b.kind == CallKind::kSend)
    return b.kind == CallKind::kRecv || a.kind == CallKind::kRecv;
  return a.kind == b.kind && a.op == b.op && a.peer == b.peer;
}

void run_calls(const std::vector<Call>& calls) {
  const std::size_t count = calls[0].count, bytes = count * element_bytes(calls[0].type);
  const auto root = static_cast<std::size_t>(calls[0].peer);
  std::vector<char> result;
  switch (calls[0].kind) {
    case CallKind::kAllReduce:
      result = reduce(calls, count);
      for (const Call& call : calls) put(call.recv, result.data(), bytes);
      break;
    case CallKind::kReduce:
      result = reduce(calls, count);
      put(calls[root].recv, result.data(), bytes);
      break;
    case CallKind::kReduceScatter:
      result = reduce(calls, count * calls.size());
      for (std::size_t r = 0; r < calls.size(); ++r) put(calls[r].recv, result.data() + r * bytes, bytes);
      break;
    case CallKind::kAllGather:
      for (const Call& call : calls) {
        const char* from = static_cast<const char*>(call.send);
        result.insert(result.end(), from, from + bytes);
      }
      for (const Call& call : calls) put(call.recv, result.data(), result.size());
      break;
    case CallKind::kBroadcast: {
      const char* from = static_cast<const char*>(calls[root].send);
      result.assign(from, from + bytes);
      for (const Call& call : calls) put(call.recv, result.data(), bytes);
      break;
    }
    default: put(calls[1].recv, static_cast<const char*>(calls[0].send), bytes);
  }
}

}  // namespace dptrain::cuda_sim
