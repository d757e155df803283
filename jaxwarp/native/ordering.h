// What XLA orders for us, told to the thread sanitizer, which sees nothing of XLA's locks: a state is made before it is
// used, and destroyed after that; a task starts after it was given; calls that share a buffer follow each other. In any
// other build these do nothing.
#pragma once

#include "xla/ffi/api/c_api.h"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace jaxwarp {

// What this thread has done so far comes before what others do once they have taken over.
inline void HandOver([[maybe_unused]] const void* what) {
#ifdef __SANITIZE_THREAD__
  if (what != nullptr) __tsan_release(const_cast<void*>(what));
#endif
}

inline void TakeOver([[maybe_unused]] const void* what) {
#ifdef __SANITIZE_THREAD__
  if (what != nullptr) __tsan_acquire(const_cast<void*>(what));
#endif
}

// The state and the buffers of a call, while it runs.
template <typename State>
class Held {
 public:
  Held(const XLA_FFI_CallFrame* frame, State* state) : frame_(frame), state_(state) { Visit(TakeOver); }
  ~Held() { Visit(HandOver); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  State& operator*() const { return *state_; }
  State* operator->() const { return state_; }

 private:
  void Visit([[maybe_unused]] void (*visit)(const void*)) const {
#ifdef __SANITIZE_THREAD__
    visit(state_);
    for (int64_t i = 0; i < frame_->args.size; ++i) visit(static_cast<const XLA_FFI_Buffer*>(frame_->args.args[i])->data);
    for (int64_t i = 0; i < frame_->rets.size; ++i) visit(static_cast<const XLA_FFI_Buffer*>(frame_->rets.rets[i])->data);
#endif
  }
  [[maybe_unused]] const XLA_FFI_CallFrame* frame_;
  State* state_;
};

}  // namespace jaxwarp
