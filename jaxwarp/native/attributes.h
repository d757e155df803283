// The attributes of a custom call, by name and with checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frame.h"

namespace jaxwarp {

// The attributes of a call, or those of them whose names start with a prefix, under the rest of their names.
class Attributes {
 public:
  explicit Attributes(const XLA_FFI_Attrs& attrs, std::string prefix = "") : attrs_(attrs), prefix_(std::move(prefix)) {}

  std::string_view String(const std::string& name) const;
  int64_t Integer(const std::string& name, int64_t low, int64_t high) const;
  // The same, or `absent` where programs made by earlier versions do not have the attribute.
  int64_t IntegerOr(const std::string& name, int64_t low, int64_t high, int64_t absent) const;
  std::vector<int64_t> Integers(const std::string& name, int64_t low, int64_t high) const;

 private:
  const XLA_FFI_Attrs& attrs_;
  std::string prefix_;
};

// Refuses a call whose attributes are not those that it was lowered with. An image has a digest of its own; this is for
// the rest, which says where the code reads and writes: what a damaged file makes of an extent may look like any other.
void RequireSeal(const XLA_FFI_Attrs& attrs);

}  // namespace jaxwarp
