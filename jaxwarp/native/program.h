// A program: launches, copies and fills in order, on the buffers of one call (docs/design/0011-graph-modes.md).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "launch.h"

namespace jaxwarp {

struct Program {
  // A buffer of the call, or a contiguous part of one, from `offset` bytes on.
  struct View {
    int64_t buffer, offset;
    bool is_whole;
    std::vector<int64_t> dims;
  };
  enum Kind : int64_t { kLaunch = 0, kCopy = 1, kFill = 2 };
  struct Op {
    Kind kind;
    std::vector<int64_t> views;   // launch: operands, then results; copy: to, from; fill: to
    int64_t kernel = 0;           // launch: which one
    int64_t width = 0, value = 0; // fill: bytes of the pattern, 1, 2 or 4, and the pattern
  };
  std::string name;
  int64_t kernels = 0;
  std::vector<View> views;
  std::vector<Op> ops;

  std::string Subject() const { return "callable '" + name + "'"; }
};

// Decodes the attributes. `subject` receives the program's name as soon as it is known.
Program ParseProgram(const Attributes& attrs, std::string& subject);

// The launches that the program's operations name. `Launch` is CpuLaunch or CudaLaunch.
template <typename Launch>
std::deque<Launch> ParseLaunches(const Program& program, const XLA_FFI_Attrs& attrs, std::string& subject) {
  std::deque<Launch> launches;
  const Attributes images(attrs);
  for (int64_t i = 0; i < program.kernels; ++i) {
    std::string kernel;
    try {
      const Attributes own(attrs, "kernel" + std::to_string(i) + "_");
      const std::string image = "image" + std::to_string(own.Integer("image", 0, INT64_MAX));
      launches.emplace_back(own, images, image, kernel);
    } catch (...) {
      if (!kernel.empty()) subject += ": " + kernel;
      throw;
    }
  }
  return launches;
}

// The program's views on the buffers of one call, and the operations on them.
class Execution {
 public:
  Execution(const Program& program, const Frame* frame);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const XLA_FFI_Buffer& view(int64_t i) const { return *views_[i]; }

  // Calls `launch(kernel, frame)`, `copy(to, from, bytes)` and `fill(to, op, bytes)` in order, with what fails named in
  // `subject`. Nothing is called for what has no bytes.
  template <typename Launches, typename Launch, typename Copy, typename Fill>
  void Run(Launches& launches, std::string& subject, Launch launch, Copy copy, Fill fill) const {
    for (const Program::Op& op : program_.ops) {
      if (op.kind == Program::kLaunch) {
        auto& kernel = launches[op.kernel];
        try {
          const Call call(*this, op);
          launch(kernel, &call.frame);
        } catch (...) {
          subject += ": " + kernel.Subject();
          throw;
        }
        continue;
      }
      const XLA_FFI_Buffer& to = view(op.views[0]);
      const int64_t bytes = ByteCount(to);
      if (op.kind == Program::kCopy) RequireSameSize(bytes, ByteCount(view(op.views[1])));
      if (bytes == 0) continue;
      if (op.kind == Program::kCopy) {
        copy(to.data, view(op.views[1]).data, bytes);
      } else {
        fill(to.data, op, bytes);
      }
    }
  }

 private:
  // The frame of one launch: the program's, with other buffers.
  struct Call {
    Frame frame;
    SmallArray<void*, 16> buffers;
    Call(const Execution& execution, const Program::Op& op);
  };
  static void RequireSameSize(int64_t to, int64_t from);

  const Program& program_;
  const Frame* frame_;
  SmallArray<const XLA_FFI_Buffer*, 32> views_;
  std::deque<XLA_FFI_Buffer> parts_;
};

}  // namespace jaxwarp
