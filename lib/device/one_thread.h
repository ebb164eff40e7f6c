#pragma once

namespace dptrain {

/// While it lives, libraries that ask OpenMP for threads get one on the calling thread. Used for work that parallel_for
/// divides into parts of a fixed size, so that its bits don't depend on the number of threads.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace dptrain
