#pragma once

#include "parallel/bucket_sum.h"

namespace dptrain::parallel {

/// Whether PowerSGD sends a weight of this shape as a product of factors with `rank` columns. It does if the weight has
/// at least two dimensions and the factors have at most half of its elements, as in PyTorch's powerSGD_hook.
bool is_factored(const Shape& shape, int rank);
/// A weight as a matrix [O, I] or [O, I * K * K], and the rank of its factors.
struct FactoredShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rank = 0;

  static FactoredShape of(const Shape& shape, int rank);
};

/// Exchanges a bucket's gradients as products of thin matrices (Vogels et al., "PowerSGD: practical low-rank gradient
/// compression for distributed optimization", 2019, algorithms 1 and 2). Let M be the sum over ranks of gradients and
/// residuals as a matrix [O, I], and Q [I, R] the result of the step before:
///   P = M Q, summed over the ranks; its columns are made orthonormal
///   Q = M^T P, summed over the ranks
///   every rank's gradients become P Q^T; its residual is what P times the rank's own share of Q^T leaves out of its
///   own gradients and residual.
/// Weights that are small or have one dimension are summed as they are, along with P.
class PowerSgdSum final : public BucketSum {
 public:
  struct Matrix {
    Tensor gradient;
    Tensor residual;
    Tensor directions;  ///< Q^T [R, I], from which the next step begins; the same on all ranks
  };
  struct Options {
    std::vector<Matrix> matrices;
    std::vector<Tensor> whole;  ///< gradients that are summed as they are
    Tensor loss_factor = {};    ///< f32 [1]: the factor that losses are multiplied by; undefined for 1
  };
  PowerSgdSum(Communicator& communicator, Options options);

  void start() override;
  void go_on() override;
  void finish() override;

 private:
  void find_directions(const Matrix& matrix, size_t number);

  Communicator& communicator_;
  Options options_;
  Tensor first_;                    ///< flat: all P, then the gradients of `whole`
  Tensor second_;                   ///< flat: all Q^T
  std::vector<Tensor> bases_;       ///< by matrix: P [O, R], in first_
  std::vector<Tensor> wholes_;      ///< the gradients of `whole`, in first_
  std::vector<Tensor> found_;       ///< by matrix: Q^T [R, I], in second_
  std::vector<Tensor> directions_;  ///< by matrix: its `directions`
  std::unique_ptr<CommWork> first_exchange_;
  std::unique_ptr<CommWork> second_exchange_;
};

}  // namespace dptrain::parallel
