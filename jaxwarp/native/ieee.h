// Subnormal numbers. XLA runs CPU programs with them flushed to zero; kernels have the arithmetic of IEEE 754 on every
// platform, so a launch turns flushing off while its code runs.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace jaxwarp {

class IeeeArithmetic {
 public:
  IeeeArithmetic() : saved_(Get()) {
    if (saved_ & kFlush) Set(saved_ & ~kFlush);
  }
  ~IeeeArithmetic() {
    if (saved_ & kFlush) Set(saved_);
  }
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kFlush = 0x8040;  // flush-to-zero of results, denormals-are-zero of operands
  static Word Get() { return _mm_getcsr(); }
  static void Set(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kFlush = Word{1} << 24;  // FPCR.FZ
  static Word Get() {
    Word word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void Set(Word word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = uint32_t;
  static constexpr Word kFlush = 0;
  static Word Get() { return 0; }
  static void Set(Word) {}
#endif

  Word saved_;
};

}  // namespace jaxwarp
