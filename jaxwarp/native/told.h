// What threads say, as text. See jaxwarp/ir/nodes.py: Tell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jaxwarp {

// The text with words where it has their places: between \x02 and \x03 the number of a word and its format; "?" where
// there is no such word, \x02 itself where nothing is between them. Of a float, the word is the bits of the double.
std::string Filled(std::string_view text, const std::vector<int64_t>& words);

}  // namespace jaxwarp
