#include "graphs.h"

#include "launch.h"

namespace jaxwarp {
namespace {

using cuda::Driver;

// A stream of our own: capturing XLA's would catch what other threads put there.
class CaptureStream {
 public:
  explicit CaptureStream(const Driver& driver) : driver_(driver) {
    driver_.Require(driver_.StreamCreate(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate");
  }
  ~CaptureStream() { driver_.StreamDestroy(stream_); }
  CaptureStream(const CaptureStream&) = delete;
  CaptureStream& operator=(const CaptureStream&) = delete;
  cuda::Stream get() const { return stream_; }

 private:
  const Driver& driver_;
  cuda::Stream stream_ = nullptr;
};

// What `enqueue` does, as a graph.
class CapturedGraph {
 public:
  CapturedGraph(const Driver& driver, const std::function<void(cuda::Stream)>& enqueue) : driver_(driver) {
    const CaptureStream stream(driver);
    driver.Require(driver.StreamBeginCapture(stream.get(), cuda::kCaptureThreadLocal), "cuStreamBeginCapture");
    try {
      enqueue(stream.get());
    } catch (...) {
      if (driver.StreamEndCapture(stream.get(), &graph_) == 0 && graph_ != nullptr) driver.GraphDestroy(graph_);
      throw;
    }
    driver.Require(driver.StreamEndCapture(stream.get(), &graph_), "cuStreamEndCapture");
    counters.captures.fetch_add(1, std::memory_order_relaxed);
  }
  ~CapturedGraph() { driver_.GraphDestroy(graph_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  cuda::Graph get() const { return graph_; }

 private:
  const Driver& driver_;
  cuda::Graph graph_ = nullptr;
};

}  // namespace

GraphCache::Executable::Executable(const Driver& driver, cuda::Graph graph) : driver_(driver) {
  driver.Require(driver.GraphInstantiateWithFlags(&exec_, graph, 0), "cuGraphInstantiateWithFlags");
  counters.live_graphs.fetch_add(1, std::memory_order_relaxed);
}

GraphCache::Executable::~Executable() {
  driver_.GraphExecDestroy(exec_);
  counters.live_graphs.fetch_sub(1, std::memory_order_relaxed);
}

std::unique_ptr<GraphCache::Executable> GraphCache::Take(std::list<Entry>::iterator entry) {
  std::unique_ptr<Executable> graph = std::move(entry->graph);
  by_key_.erase(entry->key);
  entries_.erase(entry);
  return graph;
}

std::unique_ptr<GraphCache::Executable> GraphCache::Make(const std::function<void(cuda::Stream)>& enqueue) {
  const CapturedGraph captured(driver_, enqueue);
  if (entries_.size() >= capacity_) {
    auto graph = Take(std::prev(entries_.end()));
    cuda::GraphUpdateResult result{};
    if (driver_.GraphExecUpdate(graph->get(), captured.get(), &result) == 0) {
      counters.graph_updates.fetch_add(1, std::memory_order_relaxed);
      return graph;
    }
  }
  return std::make_unique<Executable>(driver_, captured.get());
}

void GraphCache::Launch(const GraphKey& key, cuda::Stream stream, const std::function<void(cuda::Stream)>& enqueue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const cuda::CurrentContext current(driver_, context_.get());
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
  } else {
    entries_.push_front({key, Make(enqueue)});
    by_key_[key] = entries_.begin();
  }
  const cuda::Result launched = driver_.GraphLaunch(entries_.front().graph->get(), stream);
  if (launched != 0) Take(entries_.begin());
  driver_.Require(launched, "cuGraphLaunch");
  counters.graph_launches.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace jaxwarp
