// Threads of the library's own, for launches outside of XLA's programs. XLA lends its threads to its calls alone.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace jaxwarp {

// The only T of this process: after a fork the child has one of its own. Never destroyed, for threads may outlive static
// destructors.
template <typename T>
T& OfProcess() {
  static std::atomic<T*> current{nullptr};
  static const int watches_forks = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
  static_cast<void>(watches_forks);
  T* found = current.load(std::memory_order_acquire);
  if (found == nullptr) {
    auto made = std::make_unique<T>();
    if (current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) found = made.release();
  }
  return *found;
}

class OwnThreads {
 public:
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
