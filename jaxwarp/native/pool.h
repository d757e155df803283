// Threads of the library's own, for launches outside of XLA's programs. XLA lends its threads to its calls alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace jaxwarp {

class OwnThreads {
 public:
  // Those of this process: after a fork the child has none of its parent's, and begins anew.
  static OwnThreads& Get();

  // Has a thread call task(data), after what was given before; there are `wanted` threads from then on, or as many as the
  // system gives. False where there is none.
  bool Add(void (*task)(void*), void* data, int64_t wanted);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::pair<void (*)(void*), void*>> tasks_;
  int64_t threads_ = 0;
};

}  // namespace jaxwarp
