#include "attributes.h"

namespace jaxwarp {
namespace {

std::string Quoted(const std::string& name) { return "attribute '" + name + "'"; }

// Attributes are few, so a search by comparison is enough.
template <typename T>
const T& Need(const XLA_FFI_Attrs& attrs, const std::string& name, XLA_FFI_AttrType expected, const char* kind) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != name) continue;
    if (attrs.types[i] != expected) RefuseInvalid(Quoted(name) + " is not " + kind);
    return *static_cast<const T*>(attrs.attrs[i]);
  }
  RefuseInvalid(Quoted(name) + " is missing");
}

}  // namespace

std::string_view Attributes::String(const std::string& name) const {
  const auto& span = Need<XLA_FFI_ByteSpan>(attrs_, prefix_ + name, XLA_FFI_AttrType_STRING, "a string");
  return {span.ptr, span.len};
}

int64_t Attributes::Integer(const std::string& name, int64_t low, int64_t high) const {
  const std::string full = prefix_ + name;
  const auto& scalar = Need<XLA_FFI_Scalar>(attrs_, full, XLA_FFI_AttrType_SCALAR, "an int64");
  if (scalar.dtype != XLA_FFI_DataType_S64) RefuseInvalid(Quoted(full) + " is not an int64");
  const int64_t value = *static_cast<const int64_t*>(scalar.value);
  if (value < low || value > high) RefuseInvalid(Quoted(full) + " is out of range: " + std::to_string(value));
  return value;
}

int64_t Attributes::IntegerOr(const std::string& name, int64_t low, int64_t high, int64_t absent) const {
  for (int64_t i = 0; i < attrs_.size; ++i) {
    if (std::string_view(attrs_.names[i]->ptr, attrs_.names[i]->len) == prefix_ + name) return Integer(name, low, high);
  }
  return absent;
}

std::vector<int64_t> Attributes::Integers(const std::string& name, int64_t low, int64_t high) const {
  const std::string full = prefix_ + name;
  const auto& array = Need<XLA_FFI_Array>(attrs_, full, XLA_FFI_AttrType_ARRAY, "an array of int64");
  if (array.dtype != XLA_FFI_DataType_S64) RefuseInvalid(Quoted(full) + " is not an array of int64");
  const auto* data = static_cast<const int64_t*>(array.data);
  std::vector<int64_t> values(data, data + array.size);
  for (int64_t value : values) {
    if (value < low || value > high) RefuseInvalid(Quoted(full) + " has an entry out of range: " + std::to_string(value));
  }
  return values;
}

}  // namespace jaxwarp
