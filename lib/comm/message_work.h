#pragma once

#include <exception>
#include <utility>

#include "comm/communicator.h"

namespace dptrain {

/// A message that is under way: `End` has what `finish` does to wait for it, once. Ended without `wait` it is waited
/// for all the same, unless an exception is on its way out of the rank: then what compares the ends takes back what was
/// said of it.
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
      // The group has failed: every later call of this rank says so.
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
