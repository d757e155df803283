// CUDA graphs of one program on one device, kept for the buffers they were captured for.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "driver.h"

namespace jaxwarp {

// Everything that a graph of a program depends on, apart from the program and the device: addresses and extents.
using GraphKey = std::vector<uint64_t>;

class GraphCache {
 public:
  // Keeps at most `capacity` graphs, at least one.
  GraphCache(const cuda::Driver& driver, cuda::Device device, size_t capacity)
      : driver_(driver), context_(driver, device), capacity_(capacity) {}
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Launches on `stream` the graph for `key`. Where there is none, it is made of what `enqueue` puts on the stream it
  // gets; if the cache is full, out of the graph that was not used for the longest time.
  //
  // One thread at a time: CUDA graphs are not synchronised. A graph that is changed or destroyed may still be running:
  // CUDA changes later launches only, and frees it when it has run.
  void Launch(const GraphKey& key, cuda::Stream stream, const std::function<void(cuda::Stream)>& enqueue);

 private:
  class Executable {
   public:
    Executable(const cuda::Driver& driver, cuda::Graph graph);
    ~Executable();
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;
    cuda::GraphExec get() const { return exec_; }

   private:
    const cuda::Driver& driver_;
    cuda::GraphExec exec_ = nullptr;
  };
  struct Entry {
    GraphKey key;
    std::unique_ptr<Executable> graph;
  };
  std::unique_ptr<Executable> Make(const std::function<void(cuda::Stream)>& enqueue);
  std::unique_ptr<Executable> Take(std::list<Entry>::iterator entry);

  const cuda::Driver& driver_;
  const cuda::PrimaryContext context_;
  const size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last comes first
  std::map<GraphKey, std::list<Entry>::iterator> by_key_;
};

}  // namespace jaxwarp
