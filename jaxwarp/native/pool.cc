#include "pool.h"

#include <signal.h>

#include <system_error>
#include <thread>

namespace jaxwarp {
OwnThreads& OwnThreads::Get() { return OfProcess<OwnThreads>(); }

bool OwnThreads::Add(void (*task)(void*), void* data, int64_t wanted) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (threads_ < wanted) {
      // Signals are for Python's threads: one of these would take them from a main thread that sleeps.
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        for (; threads_ < wanted; ++threads_) std::thread([this] { Work(); }).detach();
      } catch (const std::system_error&) {  // no more than there are
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    if (threads_ == 0) return false;
    tasks_.emplace_back(task, data);
  }
  given_.notify_one();
  return true;
}

void OwnThreads::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return !tasks_.empty(); });
    const auto [task, data] = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    task(data);
    lock.lock();
  }
}

}  // namespace jaxwarp
