// The way into Python, for code of other libraries: XLA's threads and their callbacks, deleters of memory that is shared.
//
// The interpreter ends before they do. A thread that asks for its lock then never comes back (Python ends it, or lets it
// wait forever), and memory it holds objects in may be gone. So an exit hook closes this door: it waits for who is inside
// and lets nobody in any more. What would be given back to Python later stays where it is; the process is ending.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "frame.h"

namespace jaxwarp {

// Functions of Python's C interface, by address: the library is not tied to a version of Python.
struct PythonApi {
  int (*holds_lock)();                               // PyGILState_Check
  void (*decrease)(void*);                           // Py_DecRef
  int (*call_soon)(int (*)(void*), void*);           // Py_AddPendingCall
  int (*is_capsule)(void*, const char*);             // PyCapsule_IsValid
  void* (*capsule_pointer)(void*, const char*);      // PyCapsule_GetPointer
};

// An object of Python's that something of ours keeps alive.
struct Kept {
  void* object = nullptr;
  Kept* next = nullptr;        // of those to be released
  void (*end)(Kept*) = nullptr;  // frees what this is part of
};

class Python {
 public:
  static Python& Get();

  void SetApi(const PythonApi& api);
  // Lets nobody in any more, and waits so long for who is inside; returns whether they have left.
  bool Close(int64_t milliseconds);
  bool IsClosed();
  const PythonApi& api() const { return api_; }

  // Gives a reference up: at once where this thread may, else as soon as Python's main thread gets to it, or with the
  // next one. Once Python has ended it is kept. May be called by any thread, with and without the interpreter lock.
  void Release(Kept* kept);
  // Gives up what waits for it. With the interpreter lock.
  void ReleaseWaiting();

  // While it lives, Python does not end, if it says that the caller was let in.
  class Visit {
   public:
    Visit() : is_inside_(Get().Enter()) {}
    ~Visit() {
      if (is_inside_) Get().Leave();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    explicit operator bool() const { return is_inside_; }

   private:
    bool is_inside_;
  };

 private:
  Python();
  bool Enter();
  void Leave();

  PythonApi api_{};
  std::mutex mutex_;  // held for a few instructions; who holds it never waits for the interpreter lock
  std::condition_variable left_;
  bool is_closed_ = false, is_due_ = false;
  int64_t inside_ = 0;
  Kept* waiting_ = nullptr;
};

}  // namespace jaxwarp
