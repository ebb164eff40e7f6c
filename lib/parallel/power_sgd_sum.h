#pragma once

#include "parallel/bucket_sum.h"

namespace dptrain::parallel {

/// Whether PowerSGD sends a weight of this shape as a product of factors with `rank` columns: where it has two
/// dimensions or more, and that takes half of its elements at most, as in PyTorch's powerSGD_hook.
bool is_factored(const Shape& shape, int rank);
/// The rank of its factors, and the matrix that it is: [O, I] or [O, I * K * K].
struct FactoredShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rank = 0;

  static FactoredShape of(const Shape& shape, int rank);
};

/// A bucket's gradients exchanged as products of thin matrices (Vogels et al., "PowerSGD: practical low-rank gradient
/// compression for distributed optimization", 2019, algorithms 1 and 2). With M the sum over ranks of gradients and
/// residuals as a matrix [O, I], and Q [I, R] what the step before has found:
///   P = M Q, summed over the ranks; its columns are made orthonormal
///   Q = M^T P, summed over the ranks
///   every rank's gradients become P Q^T, and what its own part of that leaves out is its residual.
/// Weights that are small, or have one dimension, are summed as they are, along with P.
class PowerSgdSum final : public BucketSum {
 public:
  struct Matrix {
    Tensor gradient;
    Tensor residual;
    Tensor directions;  ///< Q^T [R, I], which the next step begins from; the same on all ranks
  };
  struct Options {
    std::vector<Matrix> matrices;
    std::vector<Tensor> whole;  ///< gradients that are summed as they are
    Tensor loss_factor = {};    ///< f32 [1], what losses are multiplied by; undefined for 1
  };
  PowerSgdSum(Communicator& communicator, Options options);

  void start() override;
  void go_on() override;
  void finish() override;

 private:
  void find_directions(const Matrix& matrix, size_t number);

  Communicator& communicator_;
  Options options_;
  Tensor first_;                    ///< flat: all P, then what is whole
  Tensor second_;                   ///< flat: all Q^T
  std::vector<Tensor> bases_;       ///< P [O, R] by matrix, in first_
  std::vector<Tensor> wholes_;      ///< what is whole, in first_
  std::vector<Tensor> found_;       ///< Q^T [R, I] by matrix, in second_
  std::vector<Tensor> directions_;  ///< of the matrices
  std::unique_ptr<CommWork> first_exchange_;
  std::unique_ptr<CommWork> second_exchange_;
};

}  // namespace dptrain::parallel
