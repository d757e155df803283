// A CUDA driver whose memory is that of the host: copies and fills happen, launches call a function of the test, and
// everything is written down. Built by the tests as libcuda.so.1, for Python functions that run on the memory of a GPU.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Config;
typedef void (*Launched)(void *kernel, unsigned blocks, unsigned threads, void **parameters);
typedef unsigned long long Hex;

static char written[1 << 16];
static char failing[64];
static intptr_t current = 0, libraries = 0;
static int held = 0;
static Launched launched = 0;
static uint64_t captured = 0;

const char *fake_log(void) { return written; }
void fake_forget(void) { written[0] = 0; }
void fake_fail(const char *function) { strcpy(failing, function); }
void fake_launched(Launched function) { launched = function; }
// The stream that XLA is capturing; 0 for none.
void fake_capture(uint64_t stream) { captured = stream; }
// How much is to be given back: allocations, contexts that are current, contexts that are retained.
int fake_held(void) { return held; }

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t at = strlen(written);
  vsnprintf(written + at, sizeof written - at, format, arguments);
  va_end(arguments);
}
static int fails(const char *function) { return strcmp(failing, function) == 0 ? 999 : 0; }
// What is asked of memory needs a context; it happens unless it is to fail.
#define BEGIN(function)          \
  if (current == 0) return 201;  \
  if (fails(function)) return 999

static int Init(unsigned flags) { return flags ? 1 : fails("cuInit"); }
static int GetErrorName(int code, const char **text) {
  *text = code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
static int GetErrorString(int code, const char **text) { *text = code == 999 ? "unknown error" : 0; return 0; }
static int DeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return fails("cuDeviceGet"); }
static int DeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return attribute == 75 || attribute == 76 ? fails("cuDeviceGetAttribute") : device;
}
static int PrimaryRetain(void **context, int device) {
  if (fails("cuDevicePrimaryCtxRetain")) return 999;
  *context = (void *)(intptr_t)device;
  say("retain %d\n", device), ++held;
  return 0;
}
static int PrimaryRelease(int device) {
  say("release %d\n", device), --held;
  return fails("cuDevicePrimaryCtxRelease");
}
static int Push(void *context) {
  if (fails("cuCtxPushCurrent")) return 999;
  current = (intptr_t)context, ++held;
  return 0;
}
static int Pop(void **context) {
  *context = (void *)current;
  current = 0, --held;
  return fails("cuCtxPopCurrent");
}
static int LibraryLoad(void **library, const void *code, const int *options, void *const *values, unsigned count,
                       const int *o, void *const *v, unsigned n) {
  if (count || n) return 1;
  BEGIN("cuLibraryLoadData");
  say("load %.3s\n", (const char *)code + 1);
  *library = (void *)++libraries;
  return 0;
}
static int GetKernel(void **kernel, void *library, const char *name) {
  BEGIN("cuLibraryGetKernel");
  say("kernel %s\n", name);
  *kernel = (void *)((intptr_t)library + 1000);
  return 0;
}
static int Launch(const Config *c, void *kernel, void **parameters, void **extra) {
  if (extra || c->attributes || c->count || c->shared || c->grid[1] != 1 || c->grid[2] != 1) return 1;
  if (c->block[1] != 1 || c->block[2] != 1 || c->grid[0] == 0) return 1;
  BEGIN("cuLaunchKernelEx");
  say("launch %d grid %u block %u stream %llx\n", (int)(intptr_t)kernel, c->grid[0], c->block[0], (Hex)(uintptr_t)c->stream);
  if (launched) launched(kernel, c->grid[0], c->block[0], parameters);
  return 0;
}
static int Alloc(uint64_t *address, size_t bytes) {
  BEGIN("cuMemAlloc");
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, bytes);
  say("room %zu\n", bytes);
  return captured ? 900 : 0;
}
static int AllocAsync(uint64_t *address, size_t bytes, void *stream) {
  if (bytes == 0) return 1;
  BEGIN("cuMemAllocAsync");
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset((void *)(uintptr_t)*address, 0xa5, bytes);
  say("alloc %zu stream %llx\n", bytes, (Hex)(uintptr_t)stream), ++held;
  return 0;
}
static int FreeAsync(uint64_t address, void *stream) {
  say("free stream %llx\n", (Hex)(uintptr_t)stream), --held;
  free((void *)(uintptr_t)address);
  return fails("cuMemFreeAsync");
}
static void rows(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) {
    memcpy((char *)(uintptr_t)to + row * to_pitch, (const char *)(uintptr_t)from + row * from_pitch, width);
  }
}
#define TRANSFER(kind, To, From)                                                    \
  static int kind(To to, From from, size_t bytes, void *stream) {                   \
    if (bytes == 0) return 1;                                                       \
    BEGIN("cuMemcpy" #kind "Async");                                                \
    say(#kind " %zu stream %llx\n", bytes, (Hex)(uintptr_t)stream);                 \
    rows((uint64_t)(uintptr_t)to, 0, (uint64_t)(uintptr_t)from, 0, bytes, 1);       \
    return 0;                                                                       \
  }
TRANSFER(DtoD, uint64_t, uint64_t)
TRANSFER(DtoH, void *, uint64_t)
TRANSFER(HtoD, uint64_t, const void *)
typedef struct {
  struct { size_t x, y; int type; void *host; uint64_t address; void *array; size_t pitch; } from, to;
  size_t width, height;
} Copy2D;
static int Memcpy2D(const Copy2D *c, void *stream) {
  if (c->from.type != 2 || c->to.type != 2 || c->from.x || c->from.y || c->to.x || c->to.y) return 1;
  if (c->from.pitch < c->width || c->to.pitch < c->width || c->width == 0) return 1;
  BEGIN("cuMemcpy2DAsync");
  say("2D %zu x %zu pitches %zu %zu stream %llx\n", c->width, c->height, c->to.pitch, c->from.pitch, (Hex)(uintptr_t)stream);
  rows(c->to.address, c->to.pitch, c->from.address, c->from.pitch, c->width, c->height);
  return 0;
}
#define SET(bits, Unit)                                                                                       \
  static int Set##bits(uint64_t at, Unit value, size_t count, void *stream) {                                 \
    if (at % sizeof value || count == 0) return 1;                                                            \
    BEGIN("cuMemsetD" #bits "Async");                                                                         \
    say("set" #bits " %llx x %zu stream %llx\n", (Hex)value, count, (Hex)(uintptr_t)stream);                  \
    for (size_t i = 0; i < count; ++i) memcpy((char *)(uintptr_t)at + i * sizeof value, &value, sizeof value); \
    return 0;                                                                                                 \
  }                                                                                                           \
  static int SetRows##bits(uint64_t at, size_t pitch, Unit value, size_t width, size_t height, void *stream) { \
    if (at % sizeof value || pitch % sizeof value || pitch < width * sizeof value || width == 0) return 1;    \
    BEGIN("cuMemsetD2D" #bits "Async");                                                                       \
    say("set" #bits " %llx x %zu x %zu pitch %zu stream %llx\n", (Hex)value, width, height, pitch,            \
        (Hex)(uintptr_t)stream);                                                                              \
    for (size_t row = 0; row < height; ++row)                                                                 \
      for (size_t i = 0; i < width; ++i)                                                                      \
        memcpy((char *)(uintptr_t)at + row * pitch + i * sizeof value, &value, sizeof value);                 \
    return 0;                                                                                                 \
  }
SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned)
static int IsCapturing(void *stream, int *status) {
  *status = (uint64_t)(uintptr_t)stream == captured;
  return fails("cuStreamIsCapturing");
}
static int Synchronize(void *stream) {
  if ((uint64_t)(uintptr_t)stream == captured) return 900;
  BEGIN("cuStreamSynchronize");
  say("synchronize %llx\n", (Hex)(uintptr_t)stream);
  return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  static const struct { const char *name; void *function; } table[] = {
      {"cuInit", Init}, {"cuGetErrorName", GetErrorName}, {"cuGetErrorString", GetErrorString},
      {"cuDeviceGet", DeviceGet}, {"cuDeviceGetAttribute", DeviceGetAttribute},
      {"cuDevicePrimaryCtxRetain", PrimaryRetain}, {"cuDevicePrimaryCtxRelease", PrimaryRelease},
      {"cuCtxPushCurrent", Push}, {"cuCtxPopCurrent", Pop}, {"cuLibraryLoadData", LibraryLoad},
      {"cuLibraryGetKernel", GetKernel}, {"cuLaunchKernelEx", Launch}, {"cuMemAllocAsync", AllocAsync},
      {"cuMemFreeAsync", FreeAsync}, {"cuMemcpyDtoDAsync", DtoD}, {"cuMemcpyDtoHAsync", DtoH},
      {"cuMemcpyHtoDAsync", HtoD}, {"cuMemcpy2DAsync", Memcpy2D}, {"cuMemsetD8Async", Set8},
      {"cuMemsetD16Async", Set16}, {"cuMemsetD32Async", Set32}, {"cuMemsetD2D8Async", SetRows8},
      {"cuMemsetD2D16Async", SetRows16}, {"cuMemsetD2D32Async", SetRows32}, {"cuStreamSynchronize", Synchronize},
      {"cuStreamIsCapturing", IsCapturing}, {"cuMemAlloc", Alloc}};
  if (status) *status = 0;
  if (flags != 0 || version < 2000) return 1;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(name, table[i].name) == 0) { *function = table[i].function; return 0; }
  }
  *function = 0;
  return 500;
}
