// Copies of arrays that a launch only adds to: pieces that have one each need no atomics. See jaxwarp/codegen/cpu/plan/copies.py.
#pragma once

#include <vector>

#include "launch.h"

namespace jaxwarp {

class Copies {
 public:
  // The copies lie in `scratch` one after the other, each array of each on a line of its own.
  Copies(const Launch& launch, const Plan::Copies& plan, const XLA_FFI_Buffer& scratch);

  // Copy `i` of array `k`.
  void* data(int64_t i, size_t k) const { return memory_ + i * size_ + arrays_[k].at; }

  // Writes what changes nothing when it is added: 0, for floats -0.
  void Fill(int64_t i) const;

  // Adds the first `count` copies to the arrays, in order: parts 0 ... parts() - 1, in any order and at the same time.
  int64_t parts() const { return parts_; }
  void AddPart(int64_t part, int64_t count) const;

 private:
  struct Array {
    XLA_FFI_DataType dtype;
    char* data;
    int64_t at, bytes, first_part;
  };
  std::vector<Array> arrays_;
  char* memory_;
  int64_t size_ = 0, parts_ = 0;
};

}  // namespace jaxwarp
