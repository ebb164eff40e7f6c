#include "host_heap.h"

#include <malloc.h>

namespace dptrain::app {

void give_large_blocks_back() {
  // Naming a threshold ends glibc's habit of raising it to the size of whatever is freed.
  constexpr int kLargeBytes = 256 << 10;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
}

}  // namespace dptrain::app
