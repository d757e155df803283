// Who does the work of a call that is no launch: XLA's threads, or this one alone; and rows of a batch, spread over them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cut.h"
#include "parallel.h"

namespace jaxwarp {

// Calls work(0) ... work(count - 1) one after the other.
struct OneThread {
  int64_t threads = 1;
  template <typename Work>
  void operator()(int64_t count, Work work) const {
    for (int64_t i = 0; i < count; ++i) work(i);
  }
};

// On the threads of XLA's pool.
struct Pool {
  const Frame* frame;
  int64_t threads;
  template <typename Work>
  void operator()(int64_t count, Work work) const {
    if (count == 1) return work(0);
    ParallelFor(frame, threads, count, work);
  }
};

// Fewer elements than this in all, and a helper costs more than it saves.
constexpr int64_t kFewElements = 1 << 14;

inline Pool PoolFor(const Frame* frame, int64_t elements) {
  return Pool{frame, elements < kFewElements ? 1 : PoolThreads(frame)};
}

// Calls work(begin, end, parallel) for runs of rows, each of which is done by what `parallel` is. Few rows are done one
// after the other, each by all threads.
template <typename Parallel, typename Work>
void ForRows(int64_t rows, const Parallel& parallel, Work work) {
  if (rows < parallel.threads) return work(0, rows, parallel);
  const int64_t pieces = std::min(rows, 8 * parallel.threads);
  parallel(pieces, [&](int64_t piece) {
    work(PieceBegin(rows, pieces, piece), PieceBegin(rows, pieces, piece + 1), OneThread());
  });
}

}  // namespace jaxwarp
