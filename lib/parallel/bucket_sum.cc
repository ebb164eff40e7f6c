#include "parallel/bucket_sum.h"

#include <utility>

#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

PlainSum::PlainSum(const nn::Model& model, Communicator& communicator, std::vector<Part> parts, int priority)
    : model_(model), communicator_(communicator), parts_(std::move(parts)), priority_(priority) {}

void PlainSum::start() {
  for (const Part& part : parts_) {
    const CommBuffer buffer = comm_buffer(model_.gradients(part.begin, part.end));
    started_.push_back(part.owner == kEverybody ? communicator_.start_prioritized_all_reduce(buffer, priority_)
                                                : communicator_.start_reduce(buffer, part.owner));
  }
}

void PlainSum::finish() {
  for (auto& work : started_) work->wait();
  started_.clear();
}

}  // namespace dptrain::parallel
