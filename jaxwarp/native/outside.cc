// Launches on the CPU outside of XLA's programs, on memory of the process: cut and run as those of programs are, by the
// thread that asks and by the library's own. See jaxwarp/ffi/launch/native_launch.py.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cpu_launch.h"
#include "parallel.h"
#include "pool.h"

namespace jaxwarp {

// A launch as Python writes it: all but where its arrays are.
struct Outside {
  int64_t function, rows, columns, threads;
  Cutting cutting;

  const int64_t* geometry() const { return reinterpret_cast<const int64_t*>(this + 1); }
  CpuFunction code() const { return reinterpret_cast<CpuFunction>(function); }
  Cut Pieces() const { return Cut(rows, columns, cutting, threads); }
};
static_assert(sizeof(Outside) == 8 * sizeof(int64_t));

using Launched = Job<Rectangles>;
using Clock = std::chrono::steady_clock;

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

// Runs a launch in this thread.
JAXWARP_EXPORT void jaxwarp_outside_run(const jaxwarp::Outside* launch, void* const* buffers) {
  using namespace jaxwarp;
  Rectangles{launch->code(), buffers, launch->geometry(), Cut(launch->rows, launch->columns)}(0);
}

// Runs a launch on several threads, for so long at most, but for a piece that has been begun; returns whether it has ended.
// If not it is `under_way`, and goes on: to be called again, so that Python can see to its signals meanwhile, or to be
// stopped. What the arguments point to stays as it is until then.
JAXWARP_EXPORT int jaxwarp_outside_share(const jaxwarp::Outside* launch, void* const* buffers,
                                         std::shared_ptr<jaxwarp::Launched>** under_way, int64_t milliseconds) {
  using namespace jaxwarp;
  const auto until = Clock::now() + std::chrono::milliseconds(milliseconds);
  if (*under_way == nullptr) {
    const Rectangles work{launch->code(), buffers, launch->geometry(), launch->Pieces()};
    const int64_t chunks = work.cut.count(), helpers = std::min(launch->threads, chunks) - 1;
    *under_way = new std::shared_ptr<Launched>(std::make_shared<Launched>(work, chunks));
    Share(**under_way, helpers, [=](void (*task)(void*), void* data) {
      return OwnThreads::Get().Add(task, data, helpers);
    });
  }
  Launched& job = ***under_way;
  job.Run([=] { return Clock::now() < until; });
  WaitFor(job, until);
  if (!job.HasEnded()) return 0;
  delete *under_way;
  *under_way = nullptr;
  return 1;
}

// Begins no other piece of a launch, and waits for those that run. Nothing happens where none is under way.
JAXWARP_EXPORT void jaxwarp_outside_stop(std::shared_ptr<jaxwarp::Launched>** under_way) {
  using namespace jaxwarp;
  if (*under_way == nullptr) return;
  Launched& job = ***under_way;
  job.Stop();
  while (!job.HasEnded()) WaitFor(job, Clock::now() + std::chrono::seconds(1));
  delete *under_way;
  *under_way = nullptr;
}
