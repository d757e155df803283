// One launch on the CPU.
#pragma once

#include <memory>
#include <string>

#include "cut.h"
#include "ieee.h"
#include "launch.h"

namespace jaxwarp {

using CpuFunction = void (*)(void* const* buffers, const int64_t* geometry, int64_t row_begin, int64_t row_end,
                             int64_t col_begin, int64_t col_end);

// What a launch does: `call(i)` runs the kernel on rectangle `i` of a cut.
struct Rectangles {
  CpuFunction function;
  void* const* buffers;
  const int64_t* geometry;
  Cut cut;

  void operator()(int64_t i) const {
    const int64_t row = i / cut.column_pieces, column = i % cut.column_pieces;
    const IeeeArithmetic ieee;
    function(buffers, geometry, cut.row(row), cut.row(row + 1), cut.column(column), cut.column(column + 1));
  }
};

// Machine code that has been loaded. When the last launch that holds it is gone, it may be unloaded.
struct CpuCode {
  const CpuFunction function;
  explicit CpuCode(CpuFunction function) : function(function) {}
  CpuCode(const CpuCode&) = delete;
  ~CpuCode();
};

class CpuLaunch {
 public:
  // Loads the code, which is attribute `image` of `images`.
  CpuLaunch(const Attributes& attrs, const Attributes& images, const std::string& image, std::string& subject);

  // Runs the kernel on the buffers of `frame`, on XLA's thread pool where that is worth it. Throws CheckFailure where the
  // launch is one of debug mode, and a thread failed.
  void Run(const Frame* frame) const;

  std::string Subject() const { return plan_.Subject(); }

 private:
  void RunKernel(const Frame* frame) const;

  // Runs it in `pieces` pieces that each have an array or a copy of it to themselves, and adds the copies.
  void RunOnCopies(const Frame* frame, const Launch& launch, const Cut& cut, int64_t pieces) const;

  Plan plan_;
  std::shared_ptr<const CpuCode> code_;
};

}  // namespace jaxwarp
