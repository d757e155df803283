// What a launch in debug mode says of the first thread that failed a check. See jaxwarp/passes/checks/reports.py.
#pragma once

#include <string>
#include <vector>

#include "attributes.h"
#include "frame.h"

namespace jaxwarp {

// A thread of the launch failed a check: the message is the whole story. Python knows it by how it begins (ffi/debug.py).
class CheckFailure : public Refusal {
 public:
  explicit CheckFailure(const std::string& text) : Refusal(XLA_FFI_Error_Code_FAILED_PRECONDITION, "check failed: " + text) {}
};

class Reports {
 public:
  Reports() = default;
  // Attributes `record` (a buffer), `record_row` (numbers in a row of it) and `reports` (texts); none without debug mode.
  explicit Reports(const Attributes& attrs);

  // After the launch. Throws CheckFailure if a thread failed.
  void Require(const Frame* frame) const;

 private:
  std::string Text(const std::vector<int64_t>& row) const;

  int64_t record_ = -1, row_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace jaxwarp
