#include "attributes.h"

#include <algorithm>

#include "sha256.h"

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

constexpr std::string_view kSeal = "seal", kImage("JAXWARP\0", 8);
constexpr size_t kImageHeader = 56;  // with the digest of the rest, which is checked where the image is read

std::string_view NameOf(const XLA_FFI_Attrs& attrs, int64_t i) { return {attrs.names[i]->ptr, attrs.names[i]->len}; }

void Append(std::string& text, std::string_view part) {
  const uint64_t length = part.size();
  text.append(reinterpret_cast<const char*>(&length), sizeof length);  // little-endian, as the machines that run this
  text.append(part);
}

// What a value is, by a letter, and its bytes: as `seal` in image.py.
void AppendValue(std::string& text, XLA_FFI_AttrType type, const void* value) {
  if (type == XLA_FFI_AttrType_STRING) {
    const auto& span = *static_cast<const XLA_FFI_ByteSpan*>(value);
    const std::string_view bytes(span.ptr, span.len);
    Append(text += 's', bytes.substr(0, kImage.size()) == kImage ? bytes.substr(0, kImageHeader) : bytes);
  } else if (type == XLA_FFI_AttrType_SCALAR) {
    const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(value);
    if (scalar.dtype == XLA_FFI_DataType_S64) Append(text += 'i', {static_cast<const char*>(scalar.value), 8});
  } else if (type == XLA_FFI_AttrType_ARRAY) {
    const auto& array = *static_cast<const XLA_FFI_Array*>(value);
    if (array.dtype == XLA_FFI_DataType_S64) Append(text += 'a', {static_cast<const char*>(array.data), 8 * array.size});
  }
}

}  // namespace

void RequireSeal(const XLA_FFI_Attrs& attrs) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (NameOf(attrs, i) != kSeal) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return NameOf(attrs, a) < NameOf(attrs, b); });
  std::string text;
  for (int64_t i : order) {
    Append(text, NameOf(attrs, i));
    AppendValue(text, attrs.types[i], attrs.attrs[i]);
  }
  if (Attributes(attrs).String(std::string(kSeal)) == Hex(Sha256(text))) return;
  throw Refusal(XLA_FFI_Error_Code_DATA_LOSS,
                "the attributes of the call are damaged (seal mismatch); trace and lower the program again to rebuild it");
}

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
