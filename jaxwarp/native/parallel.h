// Running the chunks of one launch on XLA's thread pool, with the calling thread taking part.
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

// Calls work(0) ... work(chunks - 1), each once, on up to `threads` threads; returns when all are done.
//
// XLA runs the steps of a program on the workers of this same pool. If a launch waited for tasks it has queued, all
// workers could come to wait for tasks that no worker is left to run. So nothing queued is ever waited for: whoever is
// awake takes chunks from a counter, the caller first of all, and at the end the caller waits only for chunks that
// another thread is already running. A helper that wakes up late finds the counter spent; it then touches nothing but
// the job, which it shares ownership of.
template <typename Work>
void ParallelFor(const Frame* frame, int64_t threads, int64_t chunks, Work work) {
  struct Job {
    Work work;
    int64_t chunks;
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int64_t> done{0};

    Job(Work work, int64_t chunks) : work(std::move(work)), chunks(chunks) {}

    void Run() {
      int64_t finished = 0;
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < chunks; ++finished) work(i);
      if (finished != 0) done.fetch_add(finished, std::memory_order_release);
    }
  };
  auto job = std::make_shared<Job>(std::move(work), chunks);
  const int64_t helpers = (threads < chunks ? threads : chunks) - 1;
  for (int64_t i = 0; i < helpers; ++i) {
    auto share = std::make_unique<std::shared_ptr<Job>>(job);
    XLA_FFI_ThreadPool_Schedule_Args args{};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.task = [](void* data) {
      TakeOver(data);
      std::unique_ptr<std::shared_ptr<Job>> share(static_cast<std::shared_ptr<Job>*>(data));
      (*share)->Run();
    };
    args.data = share.get();
    HandOver(args.data);
    // Refused help is no error: the chunks are still there for the caller.
    if (XLA_FFI_Error* error = frame->api->XLA_FFI_ThreadPool_Schedule(&args)) {
      XLA_FFI_Error_Destroy_Args destroy{};
      destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
      destroy.error = error;
      frame->api->XLA_FFI_Error_Destroy(&destroy);
      break;
    }
    share.release();
  }
  job->Run();
  while (job->done.load(std::memory_order_acquire) < chunks) std::this_thread::yield();
}

}  // namespace jaxwarp
