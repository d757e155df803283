// Memory that launches outside of XLA's programs update by atomics, while they are under way.
//
// Code does without atomics where a launch, or a piece of it, has elements to itself. It knows of no launch but its own; so
// those that update the same memory run one after the other. (JAX arrays never change: XLA's programs update none of it.)
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace jaxwarp {

class Updates {
 public:
  // Memory from `begin` to before `end`, and what updates it. `Begin` finds out which thread that is.
  struct Range {
    uintptr_t begin, end;
    const void* launch;
    const void* thread = nullptr;
  };

  static Updates& Get();

  // Waits for the launches that update some of it. False where one of them is this thread's own, which would wait for ever: a
  // signal's handler launches, in the middle of it.
  bool Begin(const Range* ranges, int64_t count);
  void End(const void* launch);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Range> ranges_;
};

}  // namespace jaxwarp
