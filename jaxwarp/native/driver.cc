#include "driver.h"

#include <dlfcn.h>

#include "frame.h"

namespace jaxwarp::cuda {
namespace {

using GetProcAddress = Result (*)(const char* symbol, void** function, int version, uint64_t flags, int* status);

// Fills in `driver`; returns what stands in the way, or nothing.
std::string Open(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::string("there is no CUDA driver on this machine (") + dlerror() + ")";
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return "the CUDA driver is older than CUDA 12.0";
#define JAXWARP_FIND(name, version, signature)                                                            \
  {                                                                                                       \
    int status = 0;                                                                                       \
    void* function = nullptr;                                                                             \
    if (get("cu" #name, &function, version, 0, &status) != 0 || function == nullptr) {                    \
      return "the CUDA driver has no cu" #name " (it is older than CUDA 12.0)";                           \
    }                                                                                                     \
    driver.name = reinterpret_cast<decltype(driver.name)>(function);                                      \
  }
  JAXWARP_DRIVER_FUNCTIONS(JAXWARP_FIND)
#undef JAXWARP_FIND
  return "";
}

}  // namespace

const Driver& Driver::Get() {
  struct Opened {
    Driver driver;
    std::string obstacle = Open(driver);
  };
  static const Opened* opened = new Opened;  // never destroyed: XLA's threads may outlive static destructors
  if (!opened->obstacle.empty()) throw Refusal(XLA_FFI_Error_Code_UNAVAILABLE, opened->obstacle);
  return opened->driver;
}

void Driver::Require(Result result, const std::string& what) const {
  if (result == 0) return;
  const char* name = nullptr;
  const char* text = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &text);
  throw Refusal(XLA_FFI_Error_Code_INTERNAL, what + " failed: " + (name ? name : std::to_string(result).c_str()) +
                                                 (text ? std::string(" (") + text + ")" : ""));
}

Device DeviceNumber(const Driver& driver, int ordinal) {
  Device device = 0;
  driver.Require(driver.DeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

}  // namespace jaxwarp::cuda
