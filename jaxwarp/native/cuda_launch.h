// One launch on CUDA, and where a call runs.
#pragma once

#include <string>

#include "driver.h"
#include "launch.h"

namespace jaxwarp {

constexpr int kMaxDevices = 64;
constexpr int64_t kMostThreadsOfBlock = 1024;

struct CudaImage;

class CudaLaunch {
 public:
  // Checks everything; the code is attribute `image` of `images`.
  CudaLaunch(const Attributes& attrs, const Attributes& images, const std::string& image, std::string& subject);

  // The kernel for device `ordinal`. The first call for a device loads the code onto it: that may not happen while a
  // stream is being captured into a CUDA graph, so XLA's initialize stage, which is never captured, calls this first.
  cuda::Kernel KernelFor(int ordinal);

  // Puts the launch on the buffers of `frame` onto a stream of device `ordinal`.
  void Enqueue(const Frame* frame, int ordinal, cuda::Stream stream);

  std::string Subject() const { return plan_.Subject(); }

 private:
  Plan plan_;
  std::shared_ptr<const CudaImage> image_;
  std::vector<std::atomic<cuda::Kernel>> kernels_;  // by ordinal
};

inline int DeviceOrdinal(const Frame* frame) {
  XLA_FFI_DeviceOrdinal_Get_Args args{};
  args.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  Require(frame->api, frame->api->XLA_FFI_DeviceOrdinal_Get(&args), "the device's number");
  return args.device_ordinal;
}

inline cuda::Stream StreamOf(const Frame* frame) {
  XLA_FFI_Stream_Get_Args args{};
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  Require(frame->api, frame->api->XLA_FFI_Stream_Get(&args), "a CUDA stream");
  return static_cast<cuda::Stream>(args.stream);
}

}  // namespace jaxwarp
