#include "ops/cublaslt_product_cuda.h"

#include <fmt/format.h>

#include <bit>
#include <initializer_list>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "device/cuda_device.h"
#include "ops/cublaslt_library_cuda.h"
#include "ops/gpu_libraries_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// The workspace that NVIDIA advises for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
/// How many algorithms to ask for per product. All but the first are used only if the ones before are refused.
constexpr int kProposed = 4;
/// The alignment of 16-byte loads. A larger one would make the choice depend on where a tensor happens to be in memory.
constexpr uint32_t kMostAlignmentBytes = 16;

void cublas_check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ExitCode::device, fmt::format("cuBLASLt: {} failed: {}", call, cublaslt().GetStatusString(status)));
}

/// Whether another way to compute the same product may work. Any other status is a failure of the GPU or of memory.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

// cuBLASLt's matrices are column-major, so it sees a row-major matrix as its transpose. In columns, out = a * b is
// out^T = b^T * a^T. So our b is its A, our a is its B, and its rows are our columns.

cublasLtEpilogue_t epilogue_of(ProductEpilogue epilogue) {
  switch (epilogue) {
    case ProductEpilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case ProductEpilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case ProductEpilogue::relu: return CUBLASLT_EPILOGUE_RELU;
    case ProductEpilogue::bias_relu: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case ProductEpilogue::bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Returns the alignment that all of these addresses have, up to kMostAlignmentBytes. Windows into larger tensors may
/// begin anywhere.
uint32_t common_alignment(std::initializer_list<const void*> addresses) {
  uintptr_t bits = kMostAlignmentBytes;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return uint32_t{1} << std::countr_zero(bits);
}

/// Everything that the choice of an algorithm depends on.
struct Problem {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  DType in, out;
  ProductEpilogue epilogue;
  DType bias;
  uint32_t alignment;  ///< of the three matrices and of the bias, in bytes

  explicit Problem(const Product& p)
      : batch(p.out.shape().rank() == 3 ? p.out.shape()[0] : 1),
        m(p.out.shape()[-2]),
        n(p.out.shape()[-1]),
        k(p.a.shape()[p.transpose_a ? -2 : -1]),
        transpose_a(p.transpose_a),
        transpose_b(p.transpose_b),
        in(p.a.dtype()),
        out(p.out.dtype()),
        epilogue(p.epilogue),
        bias(p.bias.defined() ? p.bias.dtype() : DType::f32),
        alignment(common_alignment({p.a.raw(), p.b.raw(), p.out.raw(), p.bias.defined() ? p.bias.raw() : nullptr})) {}

  auto key() const { return std::tuple(batch, m, n, k, transpose_a, transpose_b, in, out, epilogue, bias, alignment); }
};

class Plan {
 public:
  Plan(cublasLtHandle_t handle, const Problem& p, const void* bias, bool tf32) {
    const cublasComputeType_t compute = tf32 && p.in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublas_check(cublaslt().MatmulDescCreate(&operation_, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
    if (p.epilogue != ProductEpilogue::none && p.epilogue != ProductEpilogue::relu)
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(cuda_type(p.bias)));
    if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);  // the heuristic reads its alignment
    a_ = p.transpose_b ? matrix(p.in, p.k, p.n, p.batch) : matrix(p.in, p.n, p.k, p.batch);
    b_ = p.transpose_a ? matrix(p.in, p.m, p.k, p.batch) : matrix(p.in, p.k, p.m, p.batch);
    out_ = matrix(p.out, p.n, p.m, p.batch);
    choose(handle, p);
  }
  ~Plan() {
    cublaslt().MatrixLayoutDestroy(out_);
    cublaslt().MatrixLayoutDestroy(b_);
    cublaslt().MatrixLayoutDestroy(a_);
    cublaslt().MatmulDescDestroy(operation_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Enqueues the product. If no algorithm is left, returns the reason.
  cublasStatus_t run(cublasLtHandle_t handle, const Product& p) {
    if (p.bias.defined()) {
      const void* bias = p.bias.raw();
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    // A proposed algorithm doesn't always run. One that was refused isn't tried again.
    for (; !choices_.empty(); choices_.erase(choices_.begin())) {
      const cublasStatus_t status = run(handle, p, choices_.front());
      if (!is_refusal(status)) return status;
      refusal_ = status;
    }
    return refusal_;
  }

 private:
  cublasStatus_t run(cublasLtHandle_t handle, const Product& p, const cublasLtMatmulHeuristicResult_t& choice) const {
    const Tensor workspace = Tensor::empty(p.out.device(), {static_cast<int64_t>(choice.workspaceSize)},
                                           {.dtype = DType::u8, .purpose = MemoryPurpose::workspace});
    const float alpha = 1, beta = p.accumulate ? 1.f : 0.f;
    return cublaslt().Matmul(handle, operation_, &alpha, p.b.raw(), a_, p.a.raw(), b_, &beta, p.out.raw(), out_,
                             p.out.raw(), out_, &choice.algo, workspace.raw(), choice.workspaceSize,
                             CudaDevice::of(p.out.device()).stream());
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    cublas_check(cublaslt().MatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  /// Describes `batch` matrices, one after the other.
  static cublasLtMatrixLayout_t matrix(DType dtype, int64_t rows, int64_t columns, int64_t batch) {
    cublasLtMatrixLayout_t layout = nullptr;
    cublas_check(cublaslt().MatrixLayoutCreate(&layout, cuda_type(dtype), static_cast<uint64_t>(rows),
                                               static_cast<uint64_t>(columns), rows),
                 "cublasLtMatrixLayoutCreate");
    const auto count = static_cast<int32_t>(batch);
    const int64_t stride = rows * columns;
    cublas_check(cublaslt().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                 "cublasLtMatrixLayoutSetAttribute");
    cublas_check(cublaslt().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                     sizeof stride),
                 "cublasLtMatrixLayoutSetAttribute");
    return layout;
  }

  void choose(cublasLtHandle_t handle, const Problem& p) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublas_check(cublaslt().MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [preference](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      cublas_check(cublaslt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (const auto matrix : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(matrix, p.alignment);
    // If an algorithm splits a sum, it must keep the parts in f32, each in a place of its own. They must not be in an
    // `out` of 16 bits. They must not be in one place that the parts' blocks add to in turn, as the turns may differ
    // from run to run.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    choices_.resize(kProposed);
    int found = 0;
    const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(handle, operation_, a_, b_, out_, out_, preference,
                                                                    kProposed, choices_.data(), &found);
    cublaslt().MatmulPreferenceDestroy(preference);
    choices_.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found) : 0);
    std::erase_if(choices_, [](const auto& choice) { return choice.state != CUBLAS_STATUS_SUCCESS; });
    refusal_ = status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status;
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, out_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> choices_;  ///< best first
  cublasStatus_t refusal_ = CUBLAS_STATUS_SUCCESS;        ///< the reason if no choice is left
};

/// The cuBLASLt handle and the plans of one device. Used by the device's rank thread only.
class Products {
 public:
  explicit Products(Device& device) : tf32_(CudaDevice::of(device).tf32()) {
    cublas_check(cublaslt().Create(&handle_), "cublasLtCreate");
  }
  ~Products() {
    plans_.clear();
    if (handle_ != nullptr) cublaslt().Destroy(handle_);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  cublasLtHandle_t handle() const { return handle_; }

  Plan& plan_of(const Product& product) {
    const Problem problem(product);
    auto& plan = plans_[problem.key()];
    if (!plan)
      plan = std::make_unique<Plan>(handle_, problem, product.bias.defined() ? product.bias.raw() : nullptr, tf32_);
    return *plan;
  }

 private:
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<decltype(std::declval<Problem>().key()), std::unique_ptr<Plan>> plans_;
};

cublasStatus_t give(const Product& product) {
  auto& products = product.out.device().attached<Products>();
  return products.plan_of(product).run(products.handle(), product);
}

[[noreturn]] void fail(const Product& product, cublasStatus_t status) {
  const Problem p(product);
  throw Error(ExitCode::device,
              fmt::format("{}: cuBLASLt: cublasLtMatmul of {} x {} x {} in {}, aligned to {} bytes, failed: {}",
                          product.out.device().name(), p.m, p.k, p.n, dtype_name(p.in), p.alignment,
                          cublaslt().GetStatusString(status)));
}

}  // namespace

LibraryVersion cublaslt_library() {
  LibraryVersion version{.name = "cuBLASLt", .built_major = CUBLAS_VER_MAJOR, .built_minor = CUBLAS_VER_MINOR};
  try {
    const auto loaded = static_cast<int>(cublaslt().GetVersion());  // for example 130100
    version.loaded_major = loaded / 10000;
    version.loaded_minor = loaded / 100 % 100;
  } catch (const Error&) {
    // Callers that need the library call require_cublaslt.
  }
  return version;
}

void require_cublaslt() { cublaslt(); }

bool try_multiply(const Product& product) {
  const cublasStatus_t status = give(product);
  if (status != CUBLAS_STATUS_SUCCESS && !is_refusal(status)) fail(product, status);
  return status == CUBLAS_STATUS_SUCCESS;
}

void multiply(const Product& product) {
  if (const cublasStatus_t status = give(product); status != CUBLAS_STATUS_SUCCESS) fail(product, status);
}

}  // namespace dptrain::ops::cuda
