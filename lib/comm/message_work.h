#pragma once

#include <exception>
#include <utility>

#include "comm/communicator.h"

namespace dptrain {

/// A message under way. `End` has a `finish` that waits for it, called once. The destructor waits too if `wait` was
/// never called, except while an exception leaves the rank: then the communicator that compares the ends withdraws the
/// call.
template <class End>
class MessageWork final : public CommWork {
 public:
  explicit MessageWork(End end) : end_(std::move(end)), exceptions_(std::uncaught_exceptions()) {}
  MessageWork(const MessageWork&) = delete;
  MessageWork& operator=(const MessageWork&) = delete;
  ~MessageWork() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (const std::exception&) {
      // The group has failed. Every later call of this rank reports it.
    }
  }
  void wait() override {
    if (!std::exchange(waited_, true)) end_.finish();
  }

 private:
  End end_;
  bool waited_ = false;
  int exceptions_;
};

}  // namespace dptrain
