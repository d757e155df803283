// A program on the CPU: its operations in order.
#include <algorithm>
#include <cstring>

#include "cpu_launch.h"
#include "pages.h"
#include "program.h"

namespace jaxwarp {
namespace {

struct CpuProgram {
  static constexpr const char* kTypeName = "jaxwarp_cpu_program";
  static XLA_FFI_TypeId id;
  Program program;
  std::deque<CpuLaunch> launches;

  CpuProgram(const XLA_FFI_Attrs& attrs, std::string& subject)
      : program(ParseProgram(Attributes(attrs), subject)), launches(ParseLaunches<CpuLaunch>(program, attrs, subject)) {
    counters.live_states.fetch_add(1, std::memory_order_relaxed);
  }
  ~CpuProgram() { counters.live_states.fetch_sub(1, std::memory_order_relaxed); }
};
XLA_FFI_TypeId CpuProgram::id{};

void Fill(void* to, const Program::Op& op, int64_t bytes) {
  // A pattern of one byte, or one whose bytes are equal.
  char pattern[4];
  std::memcpy(pattern, &op.value, sizeof pattern);  // the machines that run this are little-endian, as attributes are
  bool is_uniform = true;
  for (int64_t i = 1; i < op.width; ++i) is_uniform &= pattern[i] == pattern[0];
  if (is_uniform) {
    std::memset(to, pattern[0], bytes);
  } else if (op.width == 2) {
    std::fill_n(static_cast<uint16_t*>(to), bytes / 2, static_cast<uint16_t>(op.value));
  } else {
    std::fill_n(static_cast<uint32_t*>(to), bytes / 4, static_cast<uint32_t>(op.value));
  }
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_program_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateMaker<CpuProgram>(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.instantiations.fetch_add(1, std::memory_order_relaxed);
    RequireSeal(frame->attrs);
    SetState(frame, std::make_unique<CpuProgram>(frame->attrs, subject));
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_program_execute(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.executions.fetch_add(1, std::memory_order_relaxed);
    const auto held = GetState<CpuProgram>(frame);
    CpuProgram& state = *held;
    subject = state.program.Subject();
    PrepareResults(frame);
    Execution(state.program, frame)
        .Run(
            state.launches, subject, [](CpuLaunch& launch, const Frame* call) { launch.Run(call); },
            [](void* to, const void* from, int64_t bytes) { std::memmove(to, from, bytes); }, Fill);
  });
}
