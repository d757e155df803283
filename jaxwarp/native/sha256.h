// SHA-256 (FIPS 180-4), so that a code image can be checked without a library.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace jaxwarp {

using Digest = std::array<uint8_t, 32>;

Digest Sha256(std::string_view bytes);
std::string Hex(const Digest& digest);

}  // namespace jaxwarp
