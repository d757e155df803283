// DLPack's tensors: memory that is shared with other libraries, which give it back when they like. Layouts: dlpack.h,
// versions 0.8 and 1.0.
#include <algorithm>
#include <memory>

#include "launch.h"
#include "python.h"

namespace jaxwarp {
namespace {

struct Tensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

// Names of a capsule: with a tensor, after somebody took that, and of ours with what we took.
struct Managed {
  static constexpr const char *kName = "dltensor", *kUsed = "used_dltensor", *kTaken = "jaxwarp_taken";
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct Versioned {
  static constexpr const char *kName = "dltensor_versioned", *kUsed = "used_dltensor_versioned",
                              *kTaken = "jaxwarp_taken_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Tensor tensor;
};

// What Python says of a tensor.
struct Description {
  void* data;
  int32_t device_type, device_id, ndim, code, bits, is_versioned;
  uint64_t flags;
  const int64_t *shape, *strides;
  void* object;  // keeps the memory; one reference of it comes with this
};

// A tensor and all that belongs to it.
template <typename Kind>
struct Shared : Kept {
  Kind managed{};
  std::unique_ptr<int64_t[]> extents;

  explicit Shared(void* object) : Kept{object, nullptr, End} {
    counters.shared_tensors.fetch_add(1, std::memory_order_relaxed);
  }
  static void End(Kept* kept) {
    counters.shared_tensors.fetch_sub(1, std::memory_order_relaxed);
    delete static_cast<Shared*>(kept);
  }
};

template <typename Kind>
void Delete(Kind* managed) {
  Python::Get().Release(static_cast<Shared<Kind>*>(managed->context));
}

template <typename Kind>
void* Make(const Description& given) {
  auto* shared = new Shared<Kind>(given.object);
  shared->extents.reset(new int64_t[2 * given.ndim + 1]);
  int64_t* shape = shared->extents.get();
  std::copy_n(given.shape, given.ndim, shape);
  std::copy_n(given.strides, given.ndim, shape + given.ndim);
  Kind& managed = shared->managed;
  managed.tensor = {given.data,
                    given.device_type,
                    given.device_id,
                    given.ndim,
                    static_cast<uint8_t>(given.code),
                    static_cast<uint8_t>(given.bits),
                    1,
                    shape,
                    shape + given.ndim,
                    0};
  managed.context = shared;
  managed.deleter = Delete<Kind>;
  return &managed;
}

// A capsule ends. Who took what is in it has renamed it, and deletes that.
template <typename Kind>
void DeleteUntaken(const PythonApi& api, void* capsule) {
  if (!api.is_capsule(capsule, Kind::kName)) return;
  auto* managed = static_cast<Kind*>(api.capsule_pointer(capsule, Kind::kName));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// Gives back memory of another library, whose deleter may need Python too.
template <typename Kind>
void GiveBack(const PythonApi& api, void* capsule) {
  if (Python::Get().IsClosed() || !api.is_capsule(capsule, Kind::kTaken)) return;
  auto* managed = static_cast<Kind*>(api.capsule_pointer(capsule, Kind::kTaken));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT void* jaxwarp_tensor_make(const jaxwarp::Description* given) {
  using namespace jaxwarp;
  Python::Get().ReleaseWaiting();
  auto* managed = given->is_versioned ? Make<Versioned>(*given) : Make<Managed>(*given);
  if (given->is_versioned) {
    static_cast<Versioned*>(managed)->major = 1;
    static_cast<Versioned*>(managed)->flags = given->flags;
  }
  return managed;
}

// Destructors of capsules. Python calls them with the interpreter lock, also while it ends.
JAXWARP_EXPORT void jaxwarp_tensor_end_capsule(void* capsule) {
  using namespace jaxwarp;
  const PythonApi& api = Python::Get().api();
  DeleteUntaken<Managed>(api, capsule);
  DeleteUntaken<Versioned>(api, capsule);
}

JAXWARP_EXPORT void jaxwarp_tensor_give_back(void* capsule) {
  using namespace jaxwarp;
  const PythonApi& api = Python::Get().api();
  GiveBack<Managed>(api, capsule);
  GiveBack<Versioned>(api, capsule);
}

// Python keeps the address of a capsule's name, so the text must not end before other libraries' capsules do.
JAXWARP_EXPORT const char* jaxwarp_capsule_name(int is_versioned, int state) {
  using namespace jaxwarp;
  const char* plain[] = {Managed::kName, Managed::kUsed, Managed::kTaken};
  const char* versioned[] = {Versioned::kName, Versioned::kUsed, Versioned::kTaken};
  return (is_versioned ? versioned : plain)[state];
}
