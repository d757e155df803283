// What the CPU and the CUDA handlers share: the attributes of a launch, its code image, its buffers and its geometry.
// The contract is docs/design/0002-launch-abi.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "cut.h"
#include "frame.h"
#include "reports.h"
#include "sha256.h"

namespace jaxwarp {

// Numbers for tests, read through jaxwarp_counter().
struct Counters {
  std::atomic<int64_t> instantiations{0}, images_loaded{0}, executions{0}, live_states{0};
  std::atomic<int64_t> captures{0}, graph_updates{0}, graph_launches{0}, live_graphs{0};
  std::atomic<int64_t> shared_tensors{0};
};
extern Counters counters;

// A vector that needs the heap only beyond N elements: most launches have few buffers and few extents.
template <typename T, size_t N>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : size_(size), data_(size > N ? new T[size] : inline_) {}
  ~SmallArray() {
    if (data_ != inline_) delete[] data_;
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  T* data_;
  T inline_[N];
};

enum class Platform : uint32_t { kCpu = 1, kCuda = 2 };

// The attributes, decoded and checked once per call site, when its program is loaded. codegen/abi.py declares them.
struct Plan {
  struct BufferAxis {
    int64_t buffer, axis;
  };
  // Arrays that the launch adds to and does nothing else with, and memory for copies of them: see copies.h.
  struct Copies {
    int64_t count = 0, scratch = 0;
    std::vector<int64_t> parameters;
    // What the launch takes without atomics by one thread, and with them by all together; what a copy adds to a piece.
    int64_t one_thread = 0, atomic = 0, copy = 0;

    // By how many pieces without atomics so many threads run it; 1 where they are faster with them, or one alone is.
    int64_t Pieces(int64_t threads) const {
      const int64_t pieces = count < threads ? count + 1 : threads;
      if (pieces < 2) return 1;
      const int64_t time = one_thread / pieces + copy;
      return time < one_thread && time < atomic / threads ? pieces : 1;
    }
  };
  std::string name, symbol;
  std::vector<int64_t> buffers, ranks, grid, zero;
  std::vector<BufferAxis> grid_from, geometry;
  Cutting cutting;
  int64_t block = 0, blocks = 0, index_bits = 0, shared_bytes = 0;
  Copies copies;
  Reports reports;

  // Who speaks, in an error.
  std::string Subject() const { return "kernel '" + name + "'"; }
};

// Decodes the attributes. `subject` receives the kernel's name as soon as it is known.
Plan ParsePlan(const Attributes& attrs, Platform platform, std::string& subject);

// The payload of an image, after every check its header allows; it points into the image.
struct Image {
  std::string_view payload;
  Digest digest;
};
Image ParseImage(std::string_view image, Platform platform);

// Of an entry of the geometry, in place of a parameter: an extent of the grid; whether the arrays that there may be copies
// of are one call's alone.
constexpr int64_t kGrid = -1, kOwnCopies = -2;

// An axis of a parameter plus n times this stands for the product of its extent and those of the n axes behind it.
constexpr int64_t kMerged = 1 << 16;

// The buffers of one call in parameter order, checked against the plan, and the extents that follow from them.
class Launch {
 public:
  Launch(const Plan& plan, const Frame* frame);

  const XLA_FFI_Buffer& parameter(size_t i) const { return *parameters_[i]; }
  size_t parameter_count() const { return parameters_.size(); }
  void* const* pointers() const { return pointers_.data(); }
  const SmallArray<int64_t, 16>& geometry() const { return geometry_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t threads() const { return threads_; }

 private:
  SmallArray<const XLA_FFI_Buffer*, 16> parameters_;
  SmallArray<void*, 16> pointers_;
  SmallArray<int64_t, 16> geometry_;
  int64_t rows_ = 1, columns_ = 1, threads_ = 0;
};

// Buffers are numbered operands first, then results.
const XLA_FFI_Buffer& BufferNumber(const Frame* frame, int64_t number);

int64_t ElementCount(const XLA_FFI_Buffer& buffer);
int64_t ByteCount(const XLA_FFI_Buffer& buffer);

// Little-endian integers of the image format, at any alignment.
uint32_t ReadU32(std::string_view bytes, size_t at);
uint64_t ReadU64(std::string_view bytes, size_t at);

}  // namespace jaxwarp
