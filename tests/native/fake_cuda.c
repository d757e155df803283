// A CUDA driver that does nothing and writes down what it is asked to do. Built by the tests as libcuda.so.1.
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Config;

static char written[1 << 16];
static char failing[64], signature[256];
static _Thread_local intptr_t current = 0;
static intptr_t libraries = 0;
static const int capability[4][2] = {{9, 0}, {8, 6}, {12, 0}, {7, 5}};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Streams that were created, graphs and executable graphs, by number; a graph is the text of what was captured.
enum { MOST = 512, LONGEST = 2048, FIRST_STREAM = 0x5000 };
typedef struct { int lives, is_capturing; char text[LONGEST]; } Stream;
typedef struct { int lives, users; char text[LONGEST]; } Graph;
static Stream streams[MOST];
static Graph graphs[MOST], executables[MOST];
static int stream_count, graph_count, executable_count, retained, pause_us;
static uint64_t captured_by_xla;

static void append(char *to, size_t room, const char *format, va_list arguments) {
  size_t at = strlen(to);
  vsnprintf(to + at, room - at, format, arguments);
}
static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&mutex);
  append(written, sizeof written, format, arguments);
  pthread_mutex_unlock(&mutex);
  va_end(arguments);
}
static Stream *created(const void *stream) {
  intptr_t number = (intptr_t)stream - FIRST_STREAM;
  return number >= 0 && number < MOST ? &streams[number] : 0;
}
// What is put on a stream: written down at once, or kept for the graph that the stream is being captured into.
static void put(const void *stream, const char *format, ...) {
  Stream *ours = created(stream);
  va_list arguments;
  va_start(arguments, format);
  if (ours && ours->is_capturing) append(ours->text, LONGEST, format, arguments);
  va_end(arguments);
  if (ours && ours->is_capturing) return;
  char text[LONGEST] = "";
  va_start(arguments, format);
  append(text, sizeof text, format, arguments);
  va_end(arguments);
  size_t end = strlen(text);
  if (end && text[end - 1] == '\n') text[end - 1] = 0;
  char *colon = strchr(text, ':');
  if (colon) *colon = 0;
  say("%s stream %llx%s%s\n", text, (unsigned long long)(uintptr_t)stream, colon ? ":" : "", colon ? colon + 1 : "");
}

const char *fake_log(void) { return written; }
void fake_forget(void) { written[0] = 0; }
void fake_reset(void) {
  written[0] = failing[0] = 0, current = libraries = 0;
  stream_count = graph_count = executable_count = retained = pause_us = 0, captured_by_xla = 0;
  memset(streams, 0, sizeof streams), memset(graphs, 0, sizeof graphs), memset(executables, 0, sizeof executables);
}
void fake_fail(const char *function) { strcpy(failing, function); }
// One character for each kernel parameter: p for a pointer, 4 or 8 for an integer of so many bytes.
void fake_signature(const char *text) { strcpy(signature, text); }
// The stream that XLA is capturing; 0 for none.
void fake_capture(uint64_t stream) { captured_by_xla = stream; }
// How long a launch of a graph takes, so that threads that do not wait for each other meet.
void fake_pause(int us) { pause_us = us; }
// What exists: created streams, graphs, executable graphs, retained contexts.
void fake_live(int *counts) {
  counts[0] = counts[1] = counts[2] = 0, counts[3] = retained;
  for (int i = 0; i < MOST; ++i) {
    counts[0] += streams[i].lives, counts[1] += graphs[i].lives, counts[2] += executables[i].lives;
  }
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
static int PrimaryRetain(void **context, int device) {
  if (fails("cuDevicePrimaryCtxRetain")) return 999;
  *context = (void *)(intptr_t)device;
  say("retain %d\n", device);
  __atomic_add_fetch(&retained, 1, __ATOMIC_RELAXED);
  return 0;
}
static int PrimaryRelease(int device) {
  say("release %d\n", device);
  __atomic_sub_fetch(&retained, 1, __ATOMIC_RELAXED);
  return 0;
}
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
// Shared memory that blocks of a kernel may have: what fits without asking, or what was asked for.
static int permitted[1 << 10];
static int SetAttribute(int attribute, int value, void *kernel, int device) {
  intptr_t library = (intptr_t)kernel - 1000;
  if (attribute != 8 || library < 0 || library >= 1 << 10) return 1;
  say("shared %d of kernel %d on %d\n", value, (int)(intptr_t)kernel, device);
  permitted[library] = value;
  return fails("cuKernelSetAttribute");
}
static int Memset(uint64_t address, unsigned char value, size_t bytes, void *stream) {
  put(stream, "memset %llx %d %llu\n", (unsigned long long)address, value, (unsigned long long)bytes);
  return fails("cuMemsetD8Async");
}
static int Memset16(uint64_t address, unsigned short value, size_t count, void *stream) {
  put(stream, "memset16 %llx %x %llu\n", (unsigned long long)address, value, (unsigned long long)count);
  return fails("cuMemsetD16Async");
}
static int Memset32(uint64_t address, unsigned value, size_t count, void *stream) {
  put(stream, "memset32 %llx %x %llu\n", (unsigned long long)address, value, (unsigned long long)count);
  return fails("cuMemsetD32Async");
}
static int Memcpy(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  put(stream, "copy %llx %llx %llu\n", (unsigned long long)to, (unsigned long long)from, (unsigned long long)bytes);
  return fails("cuMemcpyDtoDAsync");
}
static int Launch(const Config *c, void *function, void **parameters, void **extra) {
  if (extra != 0 || c->attributes != 0 || c->count != 0) return 1;
  if (c->shared && (int)c->shared > permitted[(intptr_t)function - 1000]) return 1;
  char text[LONGEST];
  int at = snprintf(text, sizeof text, "launch %d grid %u %u %u block %u %u %u", (int)(intptr_t)function, c->grid[0],
                    c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2]);
  if (c->shared) at += snprintf(text + at, sizeof text - at, " shared %u", c->shared);
  at += snprintf(text + at, sizeof text - at, ":");
  for (size_t i = 0; signature[i]; ++i) {
    char *end = text + at;
    size_t room = sizeof text - at;
    if (signature[i] == 'p') at += snprintf(end, room, " %llx", (unsigned long long)*(uint64_t *)parameters[i]);
    if (signature[i] == '4') at += snprintf(end, room, " %d", *(int32_t *)parameters[i]);
    if (signature[i] == '8') at += snprintf(end, room, " %lld", (long long)*(int64_t *)parameters[i]);
  }
  put(c->stream, "%s\n", text);
  return fails("cuLaunchKernelEx");
}

static int next(int *count) {
  pthread_mutex_lock(&mutex);
  int number = (*count)++;
  pthread_mutex_unlock(&mutex);
  return number;
}
static int StreamCreate(void **stream, unsigned flags) {
  if (flags != 1 || current == 0) return 201;
  if (fails("cuStreamCreate")) return 999;
  int number = next(&stream_count);
  streams[number].lives = 1;
  *stream = (void *)(intptr_t)(FIRST_STREAM + number);
  return 0;
}
static int StreamDestroy(void *stream) { created(stream)->lives = 0; return 0; }
static int StreamIsCapturing(void *stream, int *status) {
  *status = (uint64_t)(uintptr_t)stream == captured_by_xla;
  return fails("cuStreamIsCapturing");
}
static int BeginCapture(void *stream, int mode) {
  if (mode != 1) return 1;  // thread-local: other threads may do what they like
  if (fails("cuStreamBeginCapture")) return 999;
  created(stream)->is_capturing = 1;
  return 0;
}
static int EndCapture(void *stream, void **graph) {
  *graph = 0;
  created(stream)->is_capturing = 0;
  if (fails("cuStreamEndCapture")) return 999;
  int number = next(&graph_count);
  graphs[number].lives = 1;
  strcpy(graphs[number].text, created(stream)->text);
  *graph = (void *)(intptr_t)(number + 1);
  return 0;
}
static int GraphDestroy(void *graph) { graphs[(intptr_t)graph - 1].lives = 0; return 0; }
static int Instantiate(void **executable, void *graph, unsigned long long flags) {
  if (flags != 0) return 1;
  if (fails("cuGraphInstantiateWithFlags")) return 999;
  int number = next(&executable_count);
  executables[number].lives = 1;
  strcpy(executables[number].text, graphs[(intptr_t)graph - 1].text);
  *executable = (void *)(intptr_t)(number + 1);
  say("instantiate %d\n", number + 1);
  return 0;
}
// The kinds of the operations, in order.
static void shape(const char *text, char *kinds) {
  for (int is_first = 1; *text; ++text) {
    if (is_first) *kinds++ = *text;
    is_first = *text == '\n';
  }
  *kinds = 0;
}
static Graph *enter(void *executable) {
  Graph *graph = &executables[(intptr_t)executable - 1];
  if (__atomic_add_fetch(&graph->users, 1, __ATOMIC_SEQ_CST) != 1) say("RACE\n");
  if (!graph->lives) say("DESTROYED BEFORE\n");
  if (pause_us) usleep(pause_us);
  return graph;
}
static void leave(Graph *graph) { __atomic_sub_fetch(&graph->users, 1, __ATOMIC_SEQ_CST); }
static int Update(void *executable, void *graph, void *result) {
  char before[LONGEST], after[LONGEST];
  Graph *held = enter(executable), *wanted = &graphs[(intptr_t)graph - 1];
  shape(held->text, before), shape(wanted->text, after);
  int error = fails("cuGraphExecUpdate") ? 999 : result == 0 || strcmp(before, after) != 0 ? 910 : 0;
  if (!error) strcpy(held->text, wanted->text);
  say("update %d%s\n", (int)(intptr_t)executable, error ? " fails" : "");
  leave(held);
  return error;
}
static int GraphLaunch(void *executable, void *stream) {
  Graph *graph = enter(executable);
  say("graph %d stream %llx\n%s", (int)(intptr_t)executable, (unsigned long long)(uintptr_t)stream, graph->text);
  leave(graph);
  return fails("cuGraphLaunch");
}
static int ExecDestroy(void *executable) {
  leave(enter(executable));
  executables[(intptr_t)executable - 1].lives = 0;
  say("destroy %d\n", (int)(intptr_t)executable);
  return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  static const struct { const char *name; void *function; } table[] = {
      {"cuInit", Init}, {"cuGetErrorName", GetErrorName}, {"cuGetErrorString", GetErrorString},
      {"cuDeviceGet", DeviceGet}, {"cuDeviceGetAttribute", DeviceGetAttribute},
      {"cuDevicePrimaryCtxRetain", PrimaryRetain}, {"cuDevicePrimaryCtxRelease", PrimaryRelease},
      {"cuCtxPushCurrent", Push}, {"cuCtxPopCurrent", Pop}, {"cuLibraryLoadData", LibraryLoad},
      {"cuKernelSetAttribute", SetAttribute},
      {"cuLibraryGetKernel", GetKernel}, {"cuKernelGetFunction", GetFunction}, {"cuMemsetD8Async", Memset},
      {"cuLaunchKernelEx", Launch}, {"cuMemsetD16Async", Memset16}, {"cuMemsetD32Async", Memset32},
      {"cuMemcpyDtoDAsync", Memcpy}, {"cuStreamCreate", StreamCreate}, {"cuStreamDestroy", StreamDestroy},
      {"cuStreamIsCapturing", StreamIsCapturing}, {"cuStreamBeginCapture", BeginCapture},
      {"cuStreamEndCapture", EndCapture}, {"cuGraphInstantiateWithFlags", Instantiate},
      {"cuGraphExecUpdate", Update}, {"cuGraphLaunch", GraphLaunch}, {"cuGraphExecDestroy", ExecDestroy},
      {"cuGraphDestroy", GraphDestroy}};
  (void)version, (void)flags;
  *status = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(name, table[i].name) == 0) { *function = table[i].function; return 0; }
  }
  *function = 0;
  return 500;
}
