// The CUDA handler: one library per code image and form, one kernel per device, launches on XLA's stream.
#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda_launch.h"

namespace jaxwarp {

using cuda::Driver;

namespace {

// One form of the kernel in a CUDA image. The library is loaded when the first device that runs this form asks.
struct Form {
  enum Kind : uint32_t { kCubin = 1, kPtx = 2 };
  uint32_t kind;
  int arch;  // 90 for sm_90
  std::string code;
  std::mutex mutex;
  cuda::Library library = nullptr;

  Form(uint32_t kind, int arch, std::string_view code) : kind(kind), arch(arch), code(code) {}

  std::string Describe() const {
    return (kind == kCubin ? "cubin for sm_" : "PTX for compute_") + std::to_string(arch);
  }
  cuda::Library Load(const Driver& driver);
};

cuda::Library Form::Load(const Driver& driver) {
  std::lock_guard<std::mutex> lock(mutex);
  if (library != nullptr) return library;
  // The driver reads PTX up to a final zero, which std::string has.
  char log[4096] = "";
  const int options[] = {cuda::kErrorLogBuffer, cuda::kErrorLogBufferSize};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const unsigned option_count = kind == kPtx ? 2 : 0;
  const cuda::Result result =
      driver.LibraryLoadData(&library, code.c_str(), options, values, option_count, nullptr, nullptr, 0);
  if (result != 0) library = nullptr;
  log[sizeof log - 1] = '\0';
  driver.Require(result, "cuLibraryLoadData of the " + Describe() + (log[0] != '\0' ? std::string(": ") + log : ""));
  return library;
}

}  // namespace

// A CUDA image taken apart.
struct CudaImage {
  std::vector<std::unique_ptr<Form>> forms;

  explicit CudaImage(std::string_view payload);

  // The cubin of the device's major version with the largest minor not above the device's, else the newest PTX not
  // above the device.
  Form& Choose(int major, int minor) const;
};

CudaImage::CudaImage(std::string_view payload) {
  constexpr size_t kTableAt = 8, kRow = 24;
  const uint64_t count = payload.size() < kTableAt ? 0 : ReadU32(payload, 0);
  if (count == 0 || count > (payload.size() - kTableAt) / kRow) RefuseInvalid("the CUDA image has a malformed table");
  for (size_t at = kTableAt; at < kTableAt + count * kRow; at += kRow) {
    const uint32_t kind = ReadU32(payload, at), arch = ReadU32(payload, at + 4);
    const uint64_t offset = ReadU64(payload, at + 8), length = ReadU64(payload, at + 16);
    if (kind != Form::kCubin && kind != Form::kPtx) RefuseInvalid("the CUDA image has an entry of an unknown kind");
    if (offset > payload.size() || length > payload.size() - offset) {
      RefuseInvalid("the CUDA image has an entry that lies outside it");
    }
    forms.push_back(std::make_unique<Form>(kind, static_cast<int>(arch), payload.substr(offset, length)));
  }
}

Form& CudaImage::Choose(int major, int minor) const {
  const int device = 10 * major + minor;
  Form* best = nullptr;
  for (const auto& form : forms) {
    if (form->arch > device || (form->kind == Form::kCubin && form->arch / 10 != major)) continue;
    if (best == nullptr || std::pair(form->kind == Form::kCubin, form->arch) >
                               std::pair(best->kind == Form::kCubin, best->arch)) {
      best = form.get();
    }
  }
  if (best != nullptr) return *best;
  std::string have;
  for (const auto& form : forms) have += (have.empty() ? "" : ", ") + form->Describe();
  throw Refusal(XLA_FFI_Error_Code_FAILED_PRECONDITION,
                "the code image has nothing for this GPU (sm_" + std::to_string(device) + "); it has " + have +
                    "; lower the program again with this architecture among the targets");
}

namespace {

// Images stay for the life of the process, as the libraries loaded from them do: an executable may be rebuilt any time.
std::shared_ptr<const CudaImage> Intern(const Image& image) {
  static auto* mutex = new std::mutex;  // never destroyed: XLA's threads may outlive static destructors
  static auto* images = new std::map<Digest, std::shared_ptr<const CudaImage>>;
  std::lock_guard<std::mutex> lock(*mutex);
  const auto found = images->find(image.digest);
  if (found != images->end()) return found->second;
  auto fresh = std::make_shared<const CudaImage>(image.payload);
  counters.images_loaded.fetch_add(1, std::memory_order_relaxed);
  return images->emplace(image.digest, std::move(fresh)).first->second;
}

struct CudaState {
  static constexpr const char* kTypeName = "jaxwarp_cuda_launch";
  static XLA_FFI_TypeId id;
  CudaLaunch launch;

  CudaState(const Attributes& attrs, std::string& subject) : launch(attrs, attrs, "image", subject) {
    counters.live_states.fetch_add(1, std::memory_order_relaxed);
  }
  ~CudaState() { counters.live_states.fetch_sub(1, std::memory_order_relaxed); }
};
XLA_FFI_TypeId CudaState::id{};

[[noreturn]] void RefuseWide(const std::string& what, int64_t value) {
  RefuseInvalid(what + " (" + std::to_string(value) +
                ") does not fit the 32-bit indices this kernel was compiled with; lower it with 64-bit indices");
}

// With 32-bit indices, extents and the elements of an array stay below 2^31. The loop over the grid counts threads without
// a sign: the number of threads, rounded up to blocks, is added to the last one and stays below 2^32.
int64_t BlockCount(const Plan& plan, const Launch& launch) {
  const int64_t n = launch.threads();
  const int64_t blocks = std::min((n - 1) / plan.block + 1, plan.blocks);
  if (plan.index_bits == 64) return blocks;
  for (size_t i = 0; i < launch.parameter_count(); ++i) {
    const int64_t elements = ElementCount(launch.parameter(i));
    if (elements > INT32_MAX) RefuseWide("the size of parameter " + std::to_string(i), elements);
  }
  for (size_t i = 0; i < launch.geometry().size(); ++i) {
    if (launch.geometry()[i] > INT32_MAX) RefuseWide("an extent", launch.geometry()[i]);
  }
  if (n > int64_t{INT32_MAX} + 1 - kMostThreadsOfBlock) RefuseWide("the number of threads", n);
  return blocks;
}

// Passes the pointers, the geometry and n by address, in the order of the kernel's parameters.
template <typename Index>
cuda::Result LaunchWith(const Driver& driver, const cuda::LaunchConfig& config, cuda::Kernel kernel,
                        const Launch& launch) {
  const size_t pointers = launch.parameter_count(), integers = launch.geometry().size() + 1;
  SmallArray<Index, 16> values(integers);
  for (size_t i = 0; i + 1 < integers; ++i) values[i] = static_cast<Index>(launch.geometry()[i]);
  values[integers - 1] = static_cast<Index>(launch.threads());
  SmallArray<void*, 32> parameters(pointers + integers);
  for (size_t i = 0; i < pointers; ++i) parameters[i] = const_cast<void**>(launch.pointers() + i);
  for (size_t i = 0; i < integers; ++i) parameters[pointers + i] = &values[i];
  // The driver takes a kernel where it expects a function, and then launches in the stream's context.
  return driver.LaunchKernelEx(&config, reinterpret_cast<cuda::Function>(kernel), parameters.data(), nullptr);
}

}  // namespace

CudaLaunch::CudaLaunch(const Attributes& attrs, const Attributes& images, const std::string& image, std::string& subject)
    : plan_(ParsePlan(attrs, Platform::kCuda, subject)),
      image_(Intern(ParseImage(images.String(image), Platform::kCuda))),
      kernels_(kMaxDevices) {}  // no driver yet: JAX compiles for devices that are elsewhere

cuda::Kernel CudaLaunch::KernelFor(int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDevices) RefuseInvalid("device ordinal " + std::to_string(ordinal) + " is too large");
  std::atomic<cuda::Kernel>& slot = kernels_[ordinal];
  if (cuda::Kernel known = slot.load(std::memory_order_acquire)) return known;
  const Driver& driver = Driver::Get();
  driver.Require(driver.Init(0), "cuInit");
  const cuda::Device device = cuda::DeviceNumber(driver, ordinal);
  int major = 0, minor = 0;
  driver.Require(driver.DeviceGetAttribute(&major, cuda::kComputeCapabilityMajor, device), "cuDeviceGetAttribute");
  driver.Require(driver.DeviceGetAttribute(&minor, cuda::kComputeCapabilityMinor, device), "cuDeviceGetAttribute");
  Form& form = image_->Choose(major, minor);
  cuda::Kernel kernel = nullptr;
  driver.Require(driver.LibraryGetKernel(&kernel, form.Load(driver), plan_.symbol.c_str()),
                 "cuLibraryGetKernel of '" + plan_.symbol + "'");
  const cuda::PrimaryContext context(driver, device);
  const cuda::CurrentContext current(driver, context.get());
  cuda::Function function = nullptr;
  driver.Require(driver.KernelGetFunction(&function, kernel), "cuKernelGetFunction");
  if (plan_.shared_bytes != 0) {
    const auto bytes = static_cast<int>(plan_.shared_bytes);
    driver.Require(driver.KernelSetAttribute(cuda::kMostDynamicSharedBytes, bytes, kernel, device),
                   "cuKernelSetAttribute of " + std::to_string(bytes) + " bytes of shared memory");
  }
  slot.store(kernel, std::memory_order_release);
  return kernel;
}

void CudaLaunch::Enqueue(const Frame* frame, int ordinal, cuda::Stream stream) {
  const Plan& plan = plan_;
  const Launch launch(plan, frame);
  const cuda::Kernel kernel = KernelFor(ordinal);
  const Driver& driver = Driver::Get();
  const int64_t blocks = launch.threads() == 0 ? 0 : BlockCount(plan, launch);
  for (int64_t parameter : plan.zero) {
    const XLA_FFI_Buffer& buffer = launch.parameter(parameter);
    const int64_t bytes = ByteCount(buffer);
    if (bytes == 0) continue;
    const auto address = reinterpret_cast<cuda::DevicePointer>(buffer.data);
    driver.Require(driver.MemsetD8Async(address, 0, bytes, stream), "cuMemsetD8Async");
  }
  if (blocks == 0) return;
  const cuda::LaunchConfig config{{static_cast<unsigned>(blocks), 1, 1}, {static_cast<unsigned>(plan.block), 1, 1},
                                  static_cast<unsigned>(plan.shared_bytes), stream, nullptr, 0};
  const auto launch_with = plan.index_bits == 32 ? LaunchWith<int32_t> : LaunchWith<int64_t>;
  driver.Require(launch_with(driver, config, kernel, launch), "cuLaunchKernelEx");
}

namespace {

// Runs `body(launch)` with the kernel's name in whatever error comes out.
template <typename Body>
XLA_FFI_Error* WithState(const Frame* frame, Body body) {
  return Guard(frame->api, [&](std::string& subject) {
    const auto held = GetState<CudaState>(frame);
    CudaState& state = *held;
    try {
      body(state.launch);
    } catch (...) {
      subject = state.launch.Subject();
      throw;
    }
  });
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateMaker<CudaState>(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.instantiations.fetch_add(1, std::memory_order_relaxed);
    RequireSeal(frame->attrs);
    SetState(frame, std::make_unique<CudaState>(Attributes(frame->attrs), subject));
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_initialize(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return WithState(frame, [&](CudaLaunch& launch) { launch.KernelFor(DeviceOrdinal(frame)); });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cuda_execute(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
  return WithState(frame, [&](CudaLaunch& launch) {
    counters.executions.fetch_add(1, std::memory_order_relaxed);
    launch.Enqueue(frame, DeviceOrdinal(frame), StreamOf(frame));
  });
}
