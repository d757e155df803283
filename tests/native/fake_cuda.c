// A CUDA driver that does nothing and writes down what it is asked to do. Built by the tests as libcuda.so.1.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Config;

static char written[1 << 16];
static char failing[64], signature[256];
static intptr_t current = 0;
static intptr_t libraries = 0;
static const int capability[4][2] = {{9, 0}, {8, 6}, {12, 0}, {7, 5}};

const char *fake_log(void) { return written; }
void fake_forget(void) { written[0] = 0; }
void fake_reset(void) { written[0] = failing[0] = 0, current = libraries = 0; }
void fake_fail(const char *function) { strcpy(failing, function); }
// One character for each kernel parameter: p for a pointer, 4 or 8 for an integer of so many bytes.
void fake_signature(const char *text) { strcpy(signature, text); }

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t at = strlen(written);
  vsnprintf(written + at, sizeof written - at, format, arguments);
  va_end(arguments);
}
static int fails(const char *function) { return strcmp(failing, function) == 0 ? 999 : 0; }

static int Init(unsigned flags) { return flags ? 1 : fails("cuInit"); }
static int GetErrorName(int code, const char **text) {
  *text = code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : code == 200 ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
static int GetErrorString(int code, const char **text) { *text = code == 999 ? "unknown error" : 0; return 0; }
static int DeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return ordinal > 3 ? 101 : 0; }
static int DeviceGetAttribute(int *value, int attribute, int device) {
  *value = capability[device - 100][attribute - 75];
  return attribute == 75 || attribute == 76 ? 0 : 1;
}
static int PrimaryRetain(void **context, int device) { *context = (void *)(intptr_t)device; say("retain %d\n", device); return 0; }
static int PrimaryRelease(int device) { say("release %d\n", device); return 0; }
static int Push(void *context) { current = (intptr_t)context; return 0; }
static int Pop(void **context) { *context = (void *)current; current = 0; return 0; }
static int LibraryLoad(void **library, const void *code, const int *options, void *const *values, unsigned count,
                       const int *o, void *const *v, unsigned n) {
  (void)o, (void)v;
  if (n != 0) return 1;
  if (count == 2 && options[0] == 5 && fails("ptx")) strcpy(values[0], "ptxas: line 7 is wrong");
  say("load %s\n", (const char *)code);
  *library = (void *)++libraries;
  return strcmp(failing, "ptx") == 0 ? 218 : fails("cuLibraryLoadData");
}
static int GetKernel(void **kernel, void *library, const char *name) {
  say("kernel %s of library %d\n", name, (int)(intptr_t)library);
  *kernel = (void *)((intptr_t)library + 1000);
  return fails("cuLibraryGetKernel");
}
static int GetFunction(void **function, void *kernel) {
  if (current == 0) return 201;
  say("function of kernel %d in context %d\n", (int)(intptr_t)kernel, (int)current);
  *function = (void *)1;
  return fails("cuKernelGetFunction");
}
static int Memset(uint64_t address, unsigned char value, size_t bytes, void *stream) {
  say("memset %llx %d %llu stream %llx\n", (unsigned long long)address, value, (unsigned long long)bytes,
      (unsigned long long)(uintptr_t)stream);
  return fails("cuMemsetD8Async");
}
static int Launch(const Config *c, void *function, void **parameters, void **extra) {
  if (extra != 0 || c->attributes != 0 || c->count != 0 || c->shared != 0) return 1;
  say("launch %d grid %u %u %u block %u %u %u stream %llx:", (int)(intptr_t)function, c->grid[0], c->grid[1],
      c->grid[2], c->block[0], c->block[1], c->block[2], (unsigned long long)(uintptr_t)c->stream);
  for (size_t i = 0; signature[i]; ++i) {
    if (signature[i] == 'p') say(" %llx", (unsigned long long)*(uint64_t *)parameters[i]);
    if (signature[i] == '4') say(" %d", *(int32_t *)parameters[i]);
    if (signature[i] == '8') say(" %lld", (long long)*(int64_t *)parameters[i]);
  }
  say("\n");
  return fails("cuLaunchKernelEx");
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  static const struct { const char *name; void *function; } table[] = {
      {"cuInit", Init}, {"cuGetErrorName", GetErrorName}, {"cuGetErrorString", GetErrorString},
      {"cuDeviceGet", DeviceGet}, {"cuDeviceGetAttribute", DeviceGetAttribute},
      {"cuDevicePrimaryCtxRetain", PrimaryRetain}, {"cuDevicePrimaryCtxRelease", PrimaryRelease},
      {"cuCtxPushCurrent", Push}, {"cuCtxPopCurrent", Pop}, {"cuLibraryLoadData", LibraryLoad},
      {"cuLibraryGetKernel", GetKernel}, {"cuKernelGetFunction", GetFunction}, {"cuMemsetD8Async", Memset},
      {"cuLaunchKernelEx", Launch}};
  (void)version, (void)flags;
  *status = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(name, table[i].name) == 0) { *function = table[i].function; return 0; }
  }
  *function = 0;
  return 500;
}
