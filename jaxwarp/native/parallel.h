// Running the chunks of one launch on several threads, with the calling one taking part.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "frame.h"

namespace jaxwarp {

inline int64_t PoolThreads(const Frame* frame) {
  int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  args.num_threads = &threads;
  Require(frame->api, frame->api->XLA_FFI_ThreadPool_NumThreads(&args), "the size of its thread pool");
  return threads;
}

// Chunks work(0) ... work(chunks - 1), each done once, by whoever is there.
//
// XLA runs the steps of a program on the workers of its pool. If a launch waited for tasks it has queued, all workers
// could come to wait for tasks that no worker is left to run. So nothing queued is ever waited for: whoever is awake takes
// chunks from a counter, the caller first of all, and at the end the caller waits only for chunks that another thread is
// already running. A helper that wakes up late finds the counter spent; it then touches nothing but the job, which it
// shares ownership of.
template <typename Work>
class Job {
 public:
  Job(Work work, int64_t chunks) : work_(std::move(work)), chunks_(chunks) {}

  // Takes chunks until there are none, or `may_go_on()` says no before one.
  template <typename MayGoOn>
  void Run(MayGoOn may_go_on) {
    int64_t finished = 0;
    for (int64_t i; may_go_on() && (i = next_.fetch_add(1, std::memory_order_relaxed)) < chunks_; ++finished) work_(i);
    if (finished != 0) done_.fetch_add(finished, std::memory_order_release);
  }
  void Run() {
    Run([] { return true; });
  }

  // No other chunk is begun.
  void Stop() {
    const int64_t begun = next_.exchange(chunks_, std::memory_order_relaxed);
    if (begun < chunks_) done_.fetch_add(chunks_ - begun, std::memory_order_release);
  }

  // Whether no chunk is left, and none is running.
  bool HasEnded() const { return done_.load(std::memory_order_acquire) >= chunks_; }

 private:
  Work work_;
  int64_t chunks_;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> done_{0};
};

// Has up to `helpers` other threads take part in a job. `schedule(task, data)` has one of them call task(data), or refuses
// by false: that is no error, since the chunks are still there for the caller.
template <typename Work, typename Schedule>
void Share(const std::shared_ptr<Job<Work>>& job, int64_t helpers, Schedule schedule) {
  using Reference = std::shared_ptr<Job<Work>>;
  for (int64_t i = 0; i < helpers; ++i) {
    auto reference = std::make_unique<Reference>(job);
    const auto task = [](void* data) {
      TakeOver(data);
      std::unique_ptr<Reference> reference(static_cast<Reference*>(data));
      (*reference)->Run();
    };
    HandOver(reference.get());
    if (!schedule(task, reference.get())) break;
    reference.release();
  }
}

// Calls work(0) ... work(chunks - 1), each once, on up to `threads` threads of XLA's pool; returns when all are done.
template <typename Work>
void ParallelFor(const Frame* frame, int64_t threads, int64_t chunks, Work work) {
  auto job = std::make_shared<Job<Work>>(std::move(work), chunks);
  Share(job, (threads < chunks ? threads : chunks) - 1, [=](void (*task)(void*), void* data) {
    XLA_FFI_ThreadPool_Schedule_Args args{};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.task = task;
    args.data = data;
    XLA_FFI_Error* error = frame->api->XLA_FFI_ThreadPool_Schedule(&args);
    if (error == nullptr) return true;
    XLA_FFI_Error_Destroy_Args destroy{};
    destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    frame->api->XLA_FFI_Error_Destroy(&destroy);
    return false;
  });
  job->Run();
  while (!job->HasEnded()) std::this_thread::yield();
}

}  // namespace jaxwarp
