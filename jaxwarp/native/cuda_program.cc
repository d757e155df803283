// A program on CUDA: captured into a graph of our own when its buffers are new, and replayed while they are the same.
#include "cuda_launch.h"
#include "graphs.h"
#include "program.h"

namespace jaxwarp {
namespace {

using cuda::Driver;

struct CudaProgram {
  static constexpr const char* kTypeName = "jaxwarp_cuda_program";
  static XLA_FFI_TypeId id;
  Program program;
  std::deque<CudaLaunch> launches;
  size_t capacity;

  CudaProgram(const XLA_FFI_Attrs& attrs, std::string& subject)
      : program(ParseProgram(Attributes(attrs), subject)),
        launches(ParseLaunches<CudaLaunch>(program, attrs, subject)),
        capacity(Attributes(attrs).Integer("graph_cache_max", 1, INT64_MAX)) {
    counters.live_states.fetch_add(1, std::memory_order_relaxed);
  }
  ~CudaProgram() { counters.live_states.fetch_sub(1, std::memory_order_relaxed); }

  // Loads all code onto the device, which may not happen while a stream is being captured.
  void Load(int ordinal, std::string& subject) {
    for (CudaLaunch& launch : launches) {
      try {
        launch.KernelFor(ordinal);
      } catch (...) {
        subject += ": " + launch.Subject();
        throw;
      }
    }
  }

  GraphCache& Graphs(int ordinal) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<GraphCache>& graphs = graphs_[ordinal];
    if (graphs == nullptr) {
      const Driver& driver = Driver::Get();
      driver.Require(driver.Init(0), "cuInit");
      graphs = std::make_unique<GraphCache>(driver, cuda::DeviceNumber(driver, ordinal), capacity);
    }
    return *graphs;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::unique_ptr<GraphCache>> graphs_;
};
XLA_FFI_TypeId CudaProgram::id{};

void Fill(const Driver& driver, void* to, const Program::Op& op, int64_t bytes, cuda::Stream stream) {
  const auto address = reinterpret_cast<cuda::DevicePointer>(to);
  switch (op.width) {
    case 1:
      return driver.Require(driver.MemsetD8Async(address, op.value, bytes, stream), "cuMemsetD8Async");
    case 2:
      return driver.Require(driver.MemsetD16Async(address, op.value, bytes / 2, stream), "cuMemsetD16Async");
    default:
      return driver.Require(driver.MemsetD32Async(address, op.value, bytes / 4, stream), "cuMemsetD32Async");
  }
}

// A launch's other numbers (blocks, extents it gets by value) follow from the extents of the buffers.
GraphKey KeyOf(const Frame* frame) {
  GraphKey key;
  for (int64_t i = 0; i < frame->args.size + frame->rets.size; ++i) {
    const XLA_FFI_Buffer& buffer = BufferNumber(frame, i);
    key.push_back(reinterpret_cast<uintptr_t>(buffer.data));
    key.push_back(static_cast<uint64_t>(buffer.rank));
    key.insert(key.end(), buffer.dims, buffer.dims + buffer.rank);
  }
  return key;
}

void Run(CudaProgram& state, const Frame* frame, std::string& subject) {
  const int ordinal = DeviceOrdinal(frame);
  const cuda::Stream stream = StreamOf(frame);
  const Execution execution(state.program, frame);
  state.Load(ordinal, subject);
  const Driver& driver = Driver::Get();
  const auto enqueue = [&](cuda::Stream onto) {
    execution.Run(
        state.launches, subject,
        [&](CudaLaunch& launch, const Frame* call) { launch.Enqueue(call, ordinal, onto); },
        [&](void* to, const void* from, int64_t bytes) {
          driver.Require(driver.MemcpyDtoDAsync(reinterpret_cast<cuda::DevicePointer>(to),
                                                reinterpret_cast<cuda::DevicePointer>(from), bytes, onto),
                         "cuMemcpyDtoDAsync");
        },
        [&](void* to, const Program::Op& op, int64_t bytes) { Fill(driver, to, op, bytes, onto); });
  };
  int capturing = cuda::kCaptureNone;
  driver.Require(driver.StreamIsCapturing(stream, &capturing), "cuStreamIsCapturing");
  if (capturing == cuda::kCaptureNone) {
    state.Graphs(ordinal).Launch(KeyOf(frame), stream, enqueue);
  } else {
    enqueue(stream);
  }
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_program_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateMaker<CudaProgram>(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.instantiations.fetch_add(1, std::memory_order_relaxed);
    RequireSeal(frame->attrs);
    SetState(frame, std::make_unique<CudaProgram>(frame->attrs, subject));
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_program_initialize(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    const auto held = GetState<CudaProgram>(frame);
    CudaProgram& state = *held;
    subject = state.program.Subject();
    state.Load(DeviceOrdinal(frame), subject);
  });
}

// Not marked as compatible with XLA's command buffers: XLA would capture it, and there would be no graph of ours.
JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_program_execute(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.executions.fetch_add(1, std::memory_order_relaxed);
    const auto held = GetState<CudaProgram>(frame);
    CudaProgram& state = *held;
    subject = state.program.Subject();
    Run(state, frame, subject);
  });
}
