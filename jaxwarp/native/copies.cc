#include "copies.h"

#include <algorithm>
#include <cstring>

namespace jaxwarp {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kPart = int64_t{1} << 16;  // bytes of an array that are added at a time

int64_t Rounded(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Calls visit(T{}) with the type that additions of elements are done in: of integers the sum does not depend on signs.
template <typename Visit>
void WithType(XLA_FFI_DataType dtype, Visit visit) {
  switch (dtype) {
    case XLA_FFI_DataType_S8:
    case XLA_FFI_DataType_U8:
      return visit(uint8_t{});
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
      return visit(uint16_t{});
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
      return visit(uint32_t{});
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
      return visit(uint64_t{});
    case XLA_FFI_DataType_F32:
      return visit(-0.0f);
    case XLA_FFI_DataType_F64:
      return visit(-0.0);
    default:
      RefuseInvalid("there are no copies of arrays of this element type");
  }
}

}  // namespace

Copies::Copies(const Launch& launch, const Plan::Copies& plan, const XLA_FFI_Buffer& scratch)
    : memory_(static_cast<char*>(scratch.data)) {
  for (int64_t parameter : plan.parameters) {
    const XLA_FFI_Buffer& array = launch.parameter(parameter);
    WithType(array.dtype, [](auto) {});
    const int64_t bytes = ByteCount(array);
    arrays_.push_back({array.dtype, static_cast<char*>(array.data), size_, bytes, parts_});
    size_ += Rounded(bytes);
    parts_ += (bytes + kPart - 1) / kPart;
  }
  if (ByteCount(scratch) / plan.count < size_) {
    RefuseInvalid("the buffer for " + std::to_string(plan.count) + " copies of " + std::to_string(size_) +
                  " bytes has " + std::to_string(ByteCount(scratch)));
  }
}

void Copies::Fill(int64_t i) const {
  for (size_t k = 0; k < arrays_.size(); ++k) {
    WithType(arrays_[k].dtype, [&](auto nothing) {
      auto* elements = static_cast<decltype(nothing)*>(data(i, k));
      std::fill_n(elements, arrays_[k].bytes / static_cast<int64_t>(sizeof nothing), nothing);
    });
  }
}

void Copies::AddPart(int64_t part, int64_t count) const {
  size_t k = arrays_.size() - 1;
  while (arrays_[k].first_part > part) --k;
  const Array& array = arrays_[k];
  const int64_t begin = (part - array.first_part) * kPart, bytes = std::min(kPart, array.bytes - begin);
  WithType(array.dtype, [&](auto nothing) {
    using T = decltype(nothing);
    T* __restrict to = reinterpret_cast<T*>(array.data + begin);
    for (int64_t i = 0; i < count; ++i) {
      const T* __restrict from = reinterpret_cast<const T*>(memory_ + i * size_ + array.at + begin);
      for (int64_t j = 0; j < bytes / static_cast<int64_t>(sizeof(T)); ++j) to[j] = static_cast<T>(to[j] + from[j]);
    }
  });
}

}  // namespace jaxwarp
