#include "told.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "frame.h"

namespace jaxwarp {
namespace {

constexpr char kOpen = '\x02', kClose = '\x03';

template <class T>
std::string Printed(const std::string& format, T value) {
  char text[512];
  const int size = std::snprintf(text, sizeof text, format.c_str(), value);
  if (size < 0) return "?";
  if (size < static_cast<int>(sizeof text)) return text;
  std::string longer(size + 1, '\0');
  std::snprintf(longer.data(), longer.size(), format.c_str(), value);
  longer.pop_back();
  return longer;
}

// A word in a format of C's without lengths; "B" is True or False.
std::string Shown(std::string format, int64_t word) {
  const char kind = format.empty() ? 'd' : format.back();
  switch (kind) {
    case 'B':
      return word != 0 ? "True" : "False";
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': {
      double value;
      std::memcpy(&value, &word, sizeof value);
      return Printed(format, std::isnan(value) ? std::fabs(value) : value);
    }
    case 'c':
      return Printed(format, static_cast<int>(word));
    case 'd': case 'u': case 'x': case 'X': case 'o':
      if (format.empty()) format = "%d";
      format.insert(format.size() - 1, "ll");
      return Printed(format, static_cast<long long>(word));
    default:
      return "?";
  }
}

}  // namespace

std::string Filled(std::string_view text, const std::vector<int64_t>& words) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == kOpen ? text.find(kClose, at) : std::string_view::npos;
    if (close == std::string_view::npos) {
      filled += text[at++];
      continue;
    }
    const std::string place(text.substr(at + 1, close - at - 1));
    at = close + 1;
    if (place.empty()) {
      filled += kOpen;
      continue;
    }
    char* format;
    const size_t slot = std::strtoul(place.c_str(), &format, 10);
    filled += slot < words.size() ? Shown(format, words[slot]) : "?";
  }
  return filled;
}

}  // namespace jaxwarp

// Prints what a thread says: in one piece, whatever other threads print. Machine code of kernels calls it.
JAXWARP_EXPORT void jaxwarp_print(const char* text, int64_t size, const int64_t* words, int64_t count) {
  const std::string said =
      jaxwarp::Filled(std::string_view(text, size), std::vector<int64_t>(words, words + count));
  flockfile(stdout);
  fwrite(said.data(), 1, said.size(), stdout);
  fflush(stdout);
  funlockfile(stdout);
}
