#include "program.h"

namespace jaxwarp {
namespace {

constexpr int64_t kMax = INT64_MAX;

// Takes integers one by one from a list that must not end early.
class Reader {
 public:
  Reader(const char* name, std::vector<int64_t> values) : name_(name), values_(std::move(values)) {}
  bool AtEnd() const { return at_ == values_.size(); }
  int64_t Next(const char* what, int64_t low, int64_t high) {
    if (AtEnd()) RefuseInvalid(std::string("attribute '") + name_ + "' ends where " + what + " is expected");
    const int64_t value = values_[at_++];
    if (value < low || value > high) {
      RefuseInvalid(std::string("attribute '") + name_ + "': " + what + " is out of range: " + std::to_string(value));
    }
    return value;
  }

 private:
  const char* name_;
  std::vector<int64_t> values_;
  size_t at_ = 0;
};

std::vector<Program::View> ParseViews(Reader reader) {
  std::vector<Program::View> views;
  while (!reader.AtEnd()) {
    Program::View view{reader.Next("a buffer", 0, kMax), reader.Next("an offset", 0, kMax), false, {}};
    const int64_t rank = reader.Next("a rank", -1, kMax);
    view.is_whole = rank < 0;
    for (int64_t axis = 0; axis < rank; ++axis) view.dims.push_back(reader.Next("an extent", 0, kMax));
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<Program::Op> ParseOps(Reader reader, int64_t kernels, int64_t views) {
  std::vector<Program::Op> ops;
  while (!reader.AtEnd()) {
    Program::Op op{};
    op.kind = static_cast<Program::Kind>(reader.Next("an operation", Program::kLaunch, Program::kFill));
    if (op.kind == Program::kLaunch) op.kernel = reader.Next("a kernel", 0, kernels - 1);
    if (op.kind == Program::kFill) {
      op.width = reader.Next("the width of a pattern", 1, 4);
      if (op.width == 3) RefuseInvalid("attribute 'ops': no pattern has 3 bytes");
      op.value = reader.Next("a pattern", 0, UINT32_MAX);
    }
    const bool is_launch = op.kind == Program::kLaunch;
    const int64_t count = is_launch ? reader.Next("a number of views", 0, kMax) : op.kind == Program::kCopy ? 2 : 1;
    for (int64_t i = 0; i < count; ++i) op.views.push_back(reader.Next("a view", 0, views - 1));
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace

Program ParseProgram(const Attributes& attrs, std::string& subject) {
  Program program;
  program.name = attrs.String("name");
  subject = program.Subject();
  program.kernels = attrs.Integer("kernels", 0, kMax);
  program.views = ParseViews({"views", attrs.Integers("views", -1, kMax)});
  const auto views = static_cast<int64_t>(program.views.size());
  program.ops = ParseOps({"ops", attrs.Integers("ops", 0, kMax)}, program.kernels, views);
  return program;
}

Execution::Execution(const Program& program, const Frame* frame)
    : program_(program), frame_(frame), views_(program.views.size()) {
  for (size_t i = 0; i < program.views.size(); ++i) {
    const Program::View& view = program.views[i];
    const XLA_FFI_Buffer& buffer = BufferNumber(frame, view.buffer);
    views_[i] = &buffer;
    if (view.is_whole) continue;
    XLA_FFI_Buffer part = buffer;
    part.rank = static_cast<int64_t>(view.dims.size());
    part.dims = const_cast<int64_t*>(view.dims.data());
    if (ByteCount(part) > ByteCount(buffer) || view.offset > ByteCount(buffer) - ByteCount(part)) {
      RefuseInvalid("view " + std::to_string(i) + " reaches beyond buffer " + std::to_string(view.buffer));
    }
    part.data = static_cast<char*>(buffer.data) + view.offset;
    parts_.push_back(part);
    views_[i] = &parts_.back();
  }
}

// All buffers go as operands: a launch numbers operands and results through.
Execution::Call::Call(const Execution& execution, const Program::Op& op)
    : frame(*execution.frame_), buffers(op.views.size()) {
  for (size_t i = 0; i < op.views.size(); ++i) buffers[i] = const_cast<XLA_FFI_Buffer*>(&execution.view(op.views[i]));
  frame.args.size = static_cast<int64_t>(op.views.size());
  frame.args.args = buffers.data();
  frame.rets.size = 0;
}

void Execution::RequireSameSize(int64_t to, int64_t from) {
  if (to == from) return;
  RefuseInvalid("a copy of " + std::to_string(from) + " bytes to " + std::to_string(to));
}

}  // namespace jaxwarp
