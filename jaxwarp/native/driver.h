// The part of the CUDA driver that a launch needs, found at run time: the library is built without CUDA and loads
// without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace jaxwarp::cuda {

// Declarations of the driver's stable interface (CUDA 12.0 and later).
using Result = int;
using Device = int;
using DevicePointer = uint64_t;
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Library = struct LibraryOpaque*;
using Kernel = struct KernelOpaque*;
using Function = struct FunctionOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32, "layout of CUlaunchConfig");

struct GraphUpdateResult {  // CUgraphExecUpdateResultInfo
  int result;
  void* node;
  void* from;
};

constexpr unsigned kStreamNonBlocking = 1;  // CUstream_flags
constexpr int kCaptureThreadLocal = 1;      // CUstreamCaptureMode
constexpr int kCaptureNone = 0;             // CUstreamCaptureStatus
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;  // CUdevice_attribute
constexpr int kMostDynamicSharedBytes = 8;                                 // CUfunction_attribute
constexpr int kErrorLogBuffer = 5, kErrorLogBufferSize = 6;                // CUjit_option

// The driver's functions by their names in the CUDA documentation, less the prefix "cu", each with the version of the
// driver interface that its signature here belongs to.
#define JAXWARP_DRIVER_FUNCTIONS(F)                                                                              \
  F(Init, 2000, (unsigned flags))                                                                                \
  F(GetErrorName, 6000, (Result, const char** text))                                                             \
  F(GetErrorString, 6000, (Result, const char** text))                                                           \
  F(DeviceGet, 2000, (Device*, int ordinal))                                                                     \
  F(DeviceGetAttribute, 2000, (int* value, int attribute, Device))                                               \
  F(DevicePrimaryCtxRetain, 7000, (Context*, Device))                                                            \
  F(DevicePrimaryCtxRelease, 11000, (Device))                                                                    \
  F(CtxPushCurrent, 4000, (Context))                                                                             \
  F(CtxPopCurrent, 4000, (Context*))                                                                             \
  F(LibraryLoadData, 12000,                                                                                      \
    (Library*, const void* code, const int* options, void* const* values, unsigned option_count,                 \
     const int* library_options, void* const* library_values, unsigned library_option_count))                    \
  F(LibraryGetKernel, 12000, (Kernel*, Library, const char* name))                                               \
  F(KernelGetFunction, 12000, (Function*, Kernel))                                                               \
  F(KernelSetAttribute, 12000, (int attribute, int value, Kernel, Device))                                       \
  F(MemsetD8Async, 3020, (DevicePointer, unsigned char value, size_t bytes, Stream))                             \
  F(MemsetD16Async, 3020, (DevicePointer, unsigned short value, size_t count, Stream))                           \
  F(MemsetD32Async, 3020, (DevicePointer, unsigned value, size_t count, Stream))                                 \
  F(MemcpyDtoDAsync, 3020, (DevicePointer to, DevicePointer from, size_t bytes, Stream))                         \
  F(StreamCreate, 2000, (Stream*, unsigned flags))                                                               \
  F(StreamDestroy, 4000, (Stream))                                                                               \
  F(StreamIsCapturing, 10000, (Stream, int* status))                                                             \
  F(StreamBeginCapture, 10010, (Stream, int mode))                                                               \
  F(StreamEndCapture, 10000, (Stream, Graph*))                                                                   \
  F(GraphInstantiateWithFlags, 11040, (GraphExec*, Graph, unsigned long long flags))                             \
  F(GraphExecUpdate, 12000, (GraphExec, Graph, GraphUpdateResult*))                                              \
  F(GraphLaunch, 10000, (GraphExec, Stream))                                                                     \
  F(GraphExecDestroy, 10000, (GraphExec))                                                                        \
  F(GraphDestroy, 10000, (Graph))                                                                                \
  F(LaunchKernelEx, 11060, (const LaunchConfig*, Function, void** parameters, void** extra))

struct Driver {
#define JAXWARP_DECLARE(name, version, signature) Result(*name) signature = nullptr;
  JAXWARP_DRIVER_FUNCTIONS(JAXWARP_DECLARE)
#undef JAXWARP_DECLARE

  // The driver, initialised; throws a Refusal where there is none.
  static const Driver& Get();

  // Throws a Refusal that says what failed and why, unless `result` is success.
  void Require(Result result, const std::string& what) const;
};

Device DeviceNumber(const Driver& driver, int ordinal);

// Keeps a device's primary context alive.
class PrimaryContext {
 public:
  PrimaryContext(const Driver& driver, Device device) : driver_(driver), device_(device) {
    driver_.Require(driver_.DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  }
  ~PrimaryContext() { driver_.DevicePrimaryCtxRelease(device_); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  Context get() const { return context_; }

 private:
  const Driver& driver_;
  Device device_;
  Context context_ = nullptr;
};

// Makes a context this thread's current one, for as long as this lives.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, Context context) : driver_(driver) {
    driver_.Require(driver_.CtxPushCurrent(context), "cuCtxPushCurrent");
  }
  ~CurrentContext() {
    Context context = nullptr;
    driver_.CtxPopCurrent(&context);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
};

}  // namespace jaxwarp::cuda
