#include "reports.h"

#include <algorithm>
#include <cstring>

#include "launch.h"
#include "told.h"

namespace jaxwarp {
namespace {

// As in passes/checks/reports.py and ffi/debug.py.
constexpr int64_t kHead = 4, kTop = int64_t{1} << 62, kMostReports = 1 << 16, kMostRow = 64;
constexpr char kEnd = '\x1e';

}  // namespace

Reports::Reports(const Attributes& attrs) {
  record_ = attrs.IntegerOr("record", 0, INT64_MAX, -1);
  if (record_ < 0) return;
  row_ = attrs.Integer("record_row", 1, kMostRow);
  const std::string_view texts = attrs.String("reports");
  for (size_t at = 0; at <= texts.size();) {
    const size_t end = std::min(texts.find(kEnd, at), texts.size());
    texts_.emplace_back(texts.substr(at, end - at));
    at = end + 1;
  }
}

void Reports::Require(const Frame* frame) const {
  if (record_ < 0) return;
  const XLA_FFI_Buffer& buffer = BufferNumber(frame, record_);
  std::vector<int64_t> record(ByteCount(buffer) / sizeof(int64_t));
  if (record.size() < kHead) RefuseInvalid("attribute 'record' names a buffer that is too small");
  std::memcpy(record.data(), buffer.data, kHead * sizeof(int64_t));
  if (record[0] == 0) return;
  std::memcpy(record.data(), buffer.data, record.size() * sizeof(int64_t));
  std::vector<int64_t> row{record[0]};
  for (size_t at = kHead; at + row_ <= record.size(); at += row_) {
    if (record[at] == record[0]) row.assign(record.begin() + at, record.begin() + at + row_);
  }
  throw CheckFailure(Text(row));
}

std::string Reports::Text(const std::vector<int64_t>& row) const {
  // A record that a kernel has not written may hold any number: one below zero has no report.
  const int64_t number = row[0] < 0 ? -1 : (kTop - row[0]) % kMostReports - 1;
  const auto last = static_cast<int64_t>(texts_.size()) - 1;
  return Filled(texts_[number >= 0 && number < last ? number : last], row);
}

}  // namespace jaxwarp
