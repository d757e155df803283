#include "python.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace jaxwarp {
namespace {

thread_local int64_t visits = 0;  // of this thread

int ReleaseSoon(void*) {
  Python::Get().ReleaseWaiting();
  return 0;
}

}  // namespace

Python& Python::Get() {
  static Python* python = new Python;  // never destroyed: other libraries' threads may outlive static destructors
  return *python;
}

// In a process that is forked there is one thread, and nobody else is inside.
Python::Python() {
  pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                 [] {
                   Get().inside_ = visits;
                   Get().mutex_.unlock();
                 });
}

void Python::SetApi(const PythonApi& api) {
  std::lock_guard<std::mutex> lock(mutex_);
  api_ = api;
}

bool Python::Close(int64_t milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  is_closed_ = true;
  return left_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return inside_ == 0; });
}

bool Python::IsClosed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_closed_;
}

bool Python::Enter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_) return false;
  ++inside_;
  ++visits;
  return true;
}

void Python::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  --visits;
  if (--inside_ == 0) left_.notify_all();
}

void Python::Release(Kept* kept) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) return;
    if (!api_.holds_lock()) {
      kept->next = waiting_;
      waiting_ = kept;
      if (!is_due_) is_due_ = api_.call_soon(ReleaseSoon, nullptr) == 0;
      return;
    }
  }
  // What ends with the object may come here again.
  api_.decrease(kept->object);
  kept->end(kept);
}

void Python::ReleaseWaiting() {
  Kept* kept = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_due_ = false;
    if (is_closed_) return;
    std::swap(kept, waiting_);
  }
  while (kept != nullptr) {
    Kept* const next = kept->next;
    api_.decrease(kept->object);
    kept->end(kept);
    kept = next;
  }
}

}  // namespace jaxwarp

JAXWARP_EXPORT void jaxwarp_python_api(const jaxwarp::PythonApi* api) { jaxwarp::Python::Get().SetApi(*api); }

JAXWARP_EXPORT int jaxwarp_python_close(int64_t milliseconds) { return jaxwarp::Python::Get().Close(milliseconds); }

// A handler of XLA's that is a function of Python's.
JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_call_python(XLA_FFI_CallFrame* frame,
                                                  XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*)) {
  const jaxwarp::Python::Visit visit;
  if (visit) return handler(frame);
  return jaxwarp::MakeError(frame->api, XLA_FFI_Error_Code_CANCELLED, "", "Python is ending, and calls of it have no place");
}
