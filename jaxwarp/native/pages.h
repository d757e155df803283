// The memory of large results. Fresh from the system it costs a fault for each page of 4 KiB that a launch is the first
// to write to, which takes longer than to write it.
//
// Below 32 MiB glibc keeps what is freed, if it has learned to: the size from which a block goes back to the system at
// once begins at 128 KiB and grows with each block that did, and with it, at twice that, how much may be free at the
// end of the heap. A gradient's results are freed together, more than twice the largest: a program without larger
// arrays gets them from the system anew in each step. One block of 32 MiB, freed untouched, is the lesson. Whoever sets
// thresholds of his own (mallopt, MALLOC_TRIM_THRESHOLD_) keeps them.
//
// For larger ones Linux has huge pages, for who asks where not everybody gets them ("madvise", the default of most
// distributions): one fault for 2 MiB. NumPy asks too, for its arrays of 4 MiB and more.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "launch.h"

namespace jaxwarp {

inline void TeachToKeep() {
  constexpr size_t kMost = size_t{32} << 20;  // with a header, and rounded to pages: more teaches nothing
  void* volatile block = std::malloc(kMost - (size_t{1} << 16));
  std::free(block);
}

// Before anything is written there. It is advice: where it cannot be taken, nothing happens.
inline void PreparePages(void* data, int64_t bytes) {
  constexpr int64_t kKept = int64_t{128} << 10, kHuge = int64_t{4} << 20;
  if (bytes < kKept) return;
  static const bool taught = (TeachToKeep(), true);
  (void)taught;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes < kHuge) return;
  constexpr uintptr_t kPage = 4096;  // where pages are larger, an address that is no multiple is refused
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) & ~(kPage - 1);
  madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(data) + bytes - begin, MADV_HUGEPAGE);
#endif
}

inline void PrepareResults(const Frame* frame) {
  for (int64_t i = 0; i < frame->rets.size; ++i) {
    const auto& result = *static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[i]);
    PreparePages(result.data, ByteCount(result));
  }
}

}  // namespace jaxwarp
