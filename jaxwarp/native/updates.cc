#include "updates.h"

#include <algorithm>

#include "pool.h"

namespace jaxwarp {

Updates& Updates::Get() { return OfProcess<Updates>(); }

bool Updates::Begin(const Range* ranges, int64_t count) {
  static thread_local const char thread = 0;
  const Range* const end = ranges + count;
  bool is_own = false;
  const auto meets = [&](const Range& other) {
    const bool found =
        std::any_of(ranges, end, [&](const Range& r) { return r.begin < other.end && other.begin < r.end; });
    is_own |= found && other.thread == &thread;
    return found;
  };
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [&] { return std::none_of(ranges_.begin(), ranges_.end(), meets) || is_own; });
  if (is_own) return false;
  for (const Range* r = ranges; r < end; ++r) ranges_.push_back({r->begin, r->end, r->launch, &thread});
  return true;
}

void Updates::End(const void* launch) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto is_its = [=](const Range& range) { return range.launch == launch; };
    ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(), is_its), ranges_.end());
  }
  ended_.notify_all();
}

}  // namespace jaxwarp
