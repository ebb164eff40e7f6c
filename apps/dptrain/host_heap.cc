#include "host_heap.h"

#include <malloc.h>

namespace dptrain::app {

void give_large_blocks_back() {
  // An explicit threshold stops glibc from raising it to the size of freed blocks.
  constexpr int kLargeBytes = 256 << 10;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
}

}  // namespace dptrain::app
