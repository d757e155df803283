// Launches on the CPU outside of XLA's programs, on memory of the process: cut and run as those of programs are, by the
// thread that asks and by the library's own. See jaxwarp/launches/native_launch.py.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cpu_launch.h"
#include "parallel.h"
#include "pool.h"
#include "updates.h"

namespace jaxwarp {

// A launch as Python writes it: all but where its arrays are.
struct Outside {
  // A buffer with atomics.
  struct Updated {
    int64_t buffer, bytes;
  };

  int64_t function, rows, columns, threads;
  Cutting cutting;
  int64_t updated_count;

  const Updated* updated() const { return reinterpret_cast<const Updated*>(this + 1); }
  const int64_t* geometry() const { return reinterpret_cast<const int64_t*>(updated() + updated_count); }
  CpuFunction code() const { return reinterpret_cast<CpuFunction>(function); }
  Cut Pieces() const { return Cut(rows, columns, cutting, threads); }
};
static_assert(sizeof(Outside) == 9 * sizeof(int64_t));

// While it lives, no other launch updates what this one does; unless it could not be had.
class Updating {
 public:
  Updating(const Outside& launch, void* const* buffers) : count_(launch.updated_count) {
    if (count_ == 0) return;
    SmallArray<Updates::Range, 8> ranges(count_);
    for (int64_t i = 0; i < count_; ++i) {
      const auto [buffer, bytes] = launch.updated()[i];
      const auto begin = reinterpret_cast<uintptr_t>(buffers[buffer]);
      ranges[i] = {begin, begin + bytes, this};
    }
    has_begun_ = Updates::Get().Begin(ranges.data(), count_);
  }
  ~Updating() {
    if (count_ != 0 && has_begun_) Updates::Get().End(this);
  }
  Updating(const Updating&) = delete;
  bool has_begun() const { return has_begun_; }

 private:
  int64_t count_;
  bool has_begun_ = true;
};

using Launched = Job<Rectangles>;
using Clock = std::chrono::steady_clock;

// A launch on several threads that Python will ask for again.
struct UnderWay {
  Updating updating;
  std::shared_ptr<Launched> job;

  UnderWay(const Outside& launch, void* const* buffers) : updating(launch, buffers) {}
};

// Others need the cores that this thread would use to look again and again.
static void WaitFor(const Launched& job, Clock::time_point until) {
  for (int looks = 0; !job.HasEnded() && Clock::now() < until; ++looks) {
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace jaxwarp

// How many pieces a launch is cut into.
JAXWARP_EXPORT int64_t jaxwarp_outside_pieces(const jaxwarp::Outside* launch) { return launch->Pieces().count(); }

// Runs a launch in this thread. Returns whether it could: see Updates::Begin.
JAXWARP_EXPORT int jaxwarp_outside_alone(const jaxwarp::Outside* launch, void* const* buffers) {
  using namespace jaxwarp;
  const Updating updating(*launch, buffers);
  if (!updating.has_begun()) return 0;
  Rectangles{launch->code(), buffers, launch->geometry(), Cut(launch->rows, launch->columns)}(0);
  return 1;
}

// Runs a launch on several threads, for so long at most, but for a piece that has been begun; returns 1 if it has ended, and
// -1 if it could not begin, see Updates::Begin. If 0 it is `under_way`, and goes on: to be called again, so that Python can
// see to its signals meanwhile, or to be stopped. What the arguments point to stays as it is until then.
JAXWARP_EXPORT int jaxwarp_outside_share(const jaxwarp::Outside* launch, void* const* buffers,
                                         jaxwarp::UnderWay** under_way, int64_t milliseconds) {
  using namespace jaxwarp;
  if (*under_way == nullptr) {
    auto made = std::make_unique<UnderWay>(*launch, buffers);
    if (!made->updating.has_begun()) return -1;
    const Rectangles work{launch->code(), buffers, launch->geometry(), launch->Pieces()};
    const int64_t chunks = work.cut.count(), helpers = std::min(launch->threads, chunks) - 1;
    made->job = std::make_shared<Launched>(work, chunks);
    *under_way = made.release();
    Share((*under_way)->job, helpers, [=](void (*task)(void*), void* data) {
      return OwnThreads::Get().Add(task, data, helpers);
    });
  }
  const auto until = Clock::now() + std::chrono::milliseconds(milliseconds);
  Launched& job = *(*under_way)->job;
  job.Run([=] { return Clock::now() < until; });
  WaitFor(job, until);
  if (!job.HasEnded()) return 0;
  delete *under_way;
  *under_way = nullptr;
  return 1;
}

// Takes memory, `count` times from an address to before another one, as launches do that update it. Returns whether it could:
// see Updates::Begin. `memory` is what `jaxwarp_updates_end` is told.
JAXWARP_EXPORT int jaxwarp_updates_begin(const uintptr_t* memory, int64_t count) {
  using namespace jaxwarp;
  SmallArray<Updates::Range, 8> ranges(count);
  for (int64_t i = 0; i < count; ++i) ranges[i] = {memory[2 * i], memory[2 * i + 1], memory};
  return Updates::Get().Begin(ranges.data(), count);
}

JAXWARP_EXPORT void jaxwarp_updates_end(const uintptr_t* memory) { jaxwarp::Updates::Get().End(memory); }

// Begins no other piece of a launch, and waits for those that run. Nothing happens where none is under way.
JAXWARP_EXPORT void jaxwarp_outside_stop(jaxwarp::UnderWay** under_way) {
  using namespace jaxwarp;
  if (*under_way == nullptr) return;
  Launched& job = *(*under_way)->job;
  job.Stop();
  while (!job.HasEnded()) WaitFor(job, Clock::now() + std::chrono::seconds(1));
  delete *under_way;
  *under_way = nullptr;
}
