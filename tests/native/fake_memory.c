// A CUDA driver whose memory is that of the host: copies and fills happen, launches call a function of the test, and
// everything is written down. Built by the tests as libcuda.so.1, for Python functions that run on the memory of a GPU.
//
// A lazy driver does what is put on a stream as late as it may: when the host waits for it, or an event behind it is
// waited for. So what forgets to wait finds other numbers.
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
enum { DEEPEST = 16, QUEUES = 4096, EVENTS = 4096, FIRST_STREAM = 0x5000, DEVICES = 4 };
static _Thread_local intptr_t entered[DEEPEST];
static _Thread_local int depth = 0;
#define current (depth ? entered[depth - 1] : 0)
static intptr_t libraries = 0;
static int held = 0, lazy = 0, devices = DEVICES;
static Launched launched = 0;
// Given a launch, keeps its arguments and returns a number for `run`.
typedef long (*Kept)(void *kernel, unsigned blocks, unsigned threads, void **parameters);
static Kept kept = 0;
static void (*run)(long number) = 0;
static uint64_t captured = 0;

const char *fake_log(void) { return written; }
void fake_forget(void) { written[0] = 0; }
void fake_fail(const char *function) { strcpy(failing, function); }
void fake_launched(Launched function) { launched = function; }
// The stream that XLA is capturing; 0 for none.
void fake_capture(uint64_t stream) { captured = stream; }
void fake_lazy(int is_lazy, Kept keep, void (*function)(long)) { lazy = is_lazy, kept = keep, run = function; }
void fake_devices(int count) { devices = count; }
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

// Work on streams, done in order.
typedef struct Op {
  void (*work)(struct Op *);
  uint64_t a, b, c, d, e, f;
  struct Op *next;
} Op;
// `recorded`: the number of the graph that the stream is being recorded into, counted from one.
typedef struct { uint64_t stream, put, done; Op *first, *last; int is_apart, recorded; } Queue;
typedef struct { Queue *queue; uint64_t behind; int lives, timed; } Event;
static Queue queues[QUEUES];
static Event events[EVENTS];
static int queue_count = 0, event_count = 0, created = 0, created_lives = 0, events_live = 0;

static Queue *queue_of(const void *stream) {
  uint64_t handle = (uint64_t)(uintptr_t)stream;
  for (int i = 0; i < queue_count; ++i) if (queues[i].stream == handle) return &queues[i];
  queues[queue_count].stream = handle;
  return &queues[queue_count++];
}
static void advance(Queue *queue, uint64_t until) {
  while (queue->done < until && queue->first) {
    Op *op = queue->first;
    queue->first = op->next, ++queue->done;
    if (!queue->first) queue->last = 0;
    op->work(op);
    free(op);
  }
}
static void advance_all(void) {
  for (int i = 0; i < queue_count; ++i) advance(&queues[i], queues[i].put);
}
// Graphs: what was put on a stream that is recorded. `behind`: what comes next does not wait for the last node.
enum { MOST_GRAPHS = 1024, MOST_NODES = 128, MOST_CONDITIONS = 512 };
static struct { Op nodes[MOST_NODES]; int count, is_body, is_behind, is_broken; } graphs[MOST_GRAPHS];
// What nodes look at: the graph of each, its value, whether something has set it since the node looked, its nodes.
static struct { int graph, value, is_set, nodes; void *bodies[2]; } conditions[MOST_CONDITIONS];
static int graph_count = 0, graphs_live = 0, condition_count = 0;
int fake_graphs(void) { return graphs_live; }
static void put(const void *stream, Op op) {
  const int number = queue_of(stream)->recorded;
  if (number) {
    if (graphs[number - 1].is_behind || graphs[number - 1].count == MOST_NODES) graphs[number - 1].is_broken = 1;
    else graphs[number - 1].nodes[graphs[number - 1].count++] = op;
    return;
  }
  if (!lazy) { op.work(&op); return; }
  Queue *queue = queue_of(stream);
  Op *made = malloc(sizeof op);
  *made = op, made->next = 0;
  if (queue->last) queue->last->next = made; else queue->first = made;
  queue->last = made, ++queue->put;
}
// What there is: streams, events.
void fake_live(int *counts) { counts[0] = created_lives, counts[1] = events_live; }

static int Init(unsigned flags) { return flags ? 1 : fails("cuInit"); }
static int GetErrorName(int code, const char **text) {
  *text = code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
static int GetErrorString(int code, const char **text) { *text = code == 999 ? "unknown error" : 0; return 0; }
static int version = 13000;
void fake_version(int number) { version = number; }
static int DriverGetVersion(int *number) { *number = version; return 0; }
static uint64_t threshold = 0;
uint64_t fake_threshold(void) { return threshold; }
static int DefaultPool(void **pool, int device) {
  *pool = (void *)(intptr_t)(7000 + device);
  return fails("cuDeviceGetDefaultMemPool");
}
static int PoolGet(void *pool, int attribute, uint64_t *value) {
  if ((intptr_t)pool < 7100 || (attribute != 4 && attribute != 7 && attribute != 8)) return 1;
  *value = attribute == 4 ? threshold : attribute == 7 ? 1024 : 4096;  // in use now, and at most
  return fails("cuMemPoolGetAttribute");
}
static int PoolSet(void *pool, int attribute, const uint64_t *value) {
  if ((intptr_t)pool < 7100 || attribute != 4) return 1;
  threshold = *value;
  return fails("cuMemPoolSetAttribute");
}
static int DeviceGetCount(int *count) { *count = devices; return fails("cuDeviceGetCount"); }
static int DeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return fails("cuDeviceGet"); }
static int DeviceGetName(char *name, int length, int device) {
  snprintf(name, length, "Pretended %d", 100);
  return device < 100 ? 1 : fails("cuDeviceGetName");
}
static int DeviceGetAttribute(int *value, int attribute, int device) {
  // The multiprocessors, the bus, the device, its domain, a space of addresses, the capability, managed memory, memory
  // of the host, shared memory, pools of memory; then what this GPU has not.
  static const int known[][2] = {{16, 132}, {33, 0x3b}, {34, 0x1c}, {50, 10}, {41, 1}, {75, 9}, {76, 0}, {83, 1},
                                 {88, 1}, {97, 232448}, {115, 1}, {86, 0}, {89, 0}, {101, 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (known[i][0] == attribute) { *value = known[i][1]; return device < 100 ? 1 : fails("cuDeviceGetAttribute"); }
  return 1;
}
static int DeviceGetUuid(char *bytes, int device) {
  for (int i = 0; i < 16; ++i) bytes[i] = (char)(i * 16 + device - 100);
  return fails("cuDeviceGetUuid");
}
static int DeviceTotalMem(size_t *bytes, int device) {
  *bytes = (size_t)1 << 36;
  return device < 100 ? 1 : fails("cuDeviceTotalMem");
}
static int MemGetInfo(size_t *free_bytes, size_t *total) {
  BEGIN("cuMemGetInfo");
  *free_bytes = 1000 + (size_t)current, *total = (size_t)1 << 36;
  return 0;
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
  if (depth == DEEPEST) return 1;
  entered[depth++] = (intptr_t)context, ++held;
  return 0;
}
static int Pop(void **context) {
  *context = (void *)current;
  depth -= depth > 0, --held;
  return fails("cuCtxPopCurrent");
}
enum { MOST_TEXTS = 4096 };
static char *texts[MOST_TEXTS];
// The PTX text of a kernel; null if it is machine code.
const char *fake_text(intptr_t kernel) { return kernel - 1000 < MOST_TEXTS ? texts[kernel - 1000] : 0; }
static int LibraryLoad(void **library, const void *code, const int *options, void *const *values, unsigned count,
                       const int *o, void *const *v, unsigned n) {
  if (count || n) return 1;
  BEGIN("cuLibraryLoadData");
  say("load %.3s\n", (const char *)code + 1);
  if (libraries + 1 < MOST_TEXTS && strncmp((const char *)code, "\n.version", 9) == 0) texts[libraries + 1] = strdup(code);
  *library = (void *)++libraries;
  return 0;
}
static int GetKernel(void **kernel, void *library, const char *name) {
  BEGIN("cuLibraryGetKernel");
  say("kernel %s\n", name);
  *kernel = (void *)((intptr_t)library + 1000);
  return 0;
}
// Shared memory that blocks of a kernel may have: what fits without asking, or what somebody asked for on any device.
static unsigned permitted[MOST_TEXTS];
static int SetAttribute(int attribute, int value, void *kernel, int device) {
  intptr_t library = (intptr_t)kernel - 1000;
  BEGIN("cuKernelSetAttribute");
  if (attribute != 8 || library < 0 || library >= MOST_TEXTS) return 1;
  say("shared %d of %d on %d\n", value, (int)(intptr_t)kernel, device);
  permitted[library] = value;
  return 0;
}
static void do_launch(Op *op) { run((long)op->a); }
static int Launch(const Config *c, void *kernel, void **parameters, void **extra) {
  if (extra || c->attributes || c->count || c->grid[1] != 1 || c->grid[2] != 1) return 1;
  if (c->shared && ((intptr_t)kernel - 1000 >= MOST_TEXTS || c->shared > permitted[(intptr_t)kernel - 1000])) return 1;
  if (c->block[1] != 1 || c->block[2] != 1 || c->grid[0] == 0) return 1;
  BEGIN("cuLaunchKernelEx");
  say("launch %d grid %u block %u", (int)(intptr_t)kernel, c->grid[0], c->block[0]);
  if (c->shared) say(" shared %u", c->shared);
  say(" stream %llx\n", (Hex)(uintptr_t)c->stream);
  if (lazy && kept) put(c->stream, (Op){do_launch, (uint64_t)kept(kernel, c->grid[0], c->block[0], parameters)});
  else if (launched) launched(kernel, c->grid[0], c->block[0], parameters);
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
  if (queue_of(stream)->recorded) return 900;  // the package makes no such nodes, and bodies may not have them
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset((void *)(uintptr_t)*address, 0xa5, bytes);
  say("alloc %zu stream %llx\n", bytes, (Hex)(uintptr_t)stream), ++held;
  return 0;
}
static void do_free(Op *op) {
  if (lazy) memset((void *)(uintptr_t)op->a, 0x5a, 16);  // who reads it still finds out
  else free((void *)(uintptr_t)op->a);
}
static int FreeAsync(uint64_t address, void *stream) {
  say("free stream %llx\n", (Hex)(uintptr_t)stream), --held;
  put(stream, (Op){do_free, address});
  return fails("cuMemFreeAsync");
}
static int HostAlloc(void **address, size_t bytes, unsigned flags) {
  BEGIN("cuMemHostAlloc");
  if (flags != 1) return 1;  // portable: for all contexts
  say("pinned %zu\n", bytes), ++held;
  *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return 0;
}
static int FreeHost(void *address) {
  say("unpin\n"), --held;
  free(address);
  return fails("cuMemFreeHost");
}
static void rows(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) {
    memcpy((char *)(uintptr_t)to + row * to_pitch, (const char *)(uintptr_t)from + row * from_pitch, width);
  }
}
static void do_copy(Op *op) { rows(op->a, 0, op->b, 0, op->c, 1); }
static void do_rows(Op *op) { rows(op->a, op->b, op->c, op->d, op->e, op->f); }
static int CopyPeer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream) {
  BEGIN("cuMemcpyPeerAsync");
  say("peer %zu from %d to %d stream %llx\n", bytes, (int)(intptr_t)from_context, (int)(intptr_t)to_context,
      (Hex)(uintptr_t)stream);
  put(stream, (Op){do_copy, to, from, bytes});
  return 0;
}
#define TRANSFER(kind, To, From)                                                    \
  static int kind(To to, From from, size_t bytes, void *stream) {                   \
    if (bytes == 0) return 1;                                                       \
    BEGIN("cuMemcpy" #kind "Async");                                                \
    say(#kind " %zu stream %llx\n", bytes, (Hex)(uintptr_t)stream);                 \
    put(stream, (Op){do_copy, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes}); \
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
  put(stream, (Op){do_rows, c->to.address, c->to.pitch, c->from.address, c->from.pitch, c->width, c->height});
  return 0;
}
// `e` rows of `c` units of `f` bytes that hold `d`, `b` bytes apart.
static void do_set(Op *op) {
  for (size_t row = 0; row < op->e; ++row) {
    char *at = (char *)(uintptr_t)op->a + row * op->b;
    if (op->f == 1) memset(at, (int)op->d, op->c);  // also 128 MB, which empty the caches of GPUs
    else for (size_t i = 0; i < op->c; ++i) memcpy(at + i * op->f, &op->d, op->f);
  }
}
#define SET(bits, Unit)                                                                                       \
  static int Set##bits(uint64_t at, Unit value, size_t count, void *stream) {                                 \
    if (at % sizeof value || count == 0) return 1;                                                            \
    BEGIN("cuMemsetD" #bits "Async");                                                                         \
    say("set" #bits " %llx x %zu stream %llx\n", (Hex)value, count, (Hex)(uintptr_t)stream);                  \
    put(stream, (Op){do_set, at, 0, count, value, 1, sizeof value});                                          \
    return 0;                                                                                                 \
  }                                                                                                           \
  static int SetRows##bits(uint64_t at, size_t pitch, Unit value, size_t width, size_t height, void *stream) { \
    if (at % sizeof value || pitch % sizeof value || pitch < width * sizeof value || width == 0) return 1;    \
    BEGIN("cuMemsetD2D" #bits "Async");                                                                       \
    say("set" #bits " %llx x %zu x %zu pitch %zu stream %llx\n", (Hex)value, width, height, pitch,            \
        (Hex)(uintptr_t)stream);                                                                              \
    put(stream, (Op){do_set, at, pitch, width, value, height, sizeof value});                                 \
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
  if ((uint64_t)(uintptr_t)stream == captured || queue_of(stream)->recorded) return 900;
  BEGIN("cuStreamSynchronize");
  say("synchronize %llx\n", (Hex)(uintptr_t)stream);
  Queue *queue = queue_of(stream);
  advance(queue, queue->put);
  return 0;
}
static int pointer_device = 0;
void fake_pointers(int device) { pointer_device = device; }
static int PointerAttribute(void *value, int attribute, uint64_t address) {
  BEGIN("cuPointerGetAttribute");
  if (attribute != 9 || !address) return 1;  // the device's number
  *(int *)value = pointer_device;
  return 0;
}
static int SynchronizeContext(void) {
  BEGIN("cuCtxSynchronize");
  say("synchronize all\n");
  advance_all();
  return 0;
}
static int StreamQuery(void *stream) {
  BEGIN("cuStreamQuery");
  Queue *queue = queue_of(stream);
  return queue->done < queue->put ? 600 : 0;
}
static int StreamCreate(void **stream, unsigned flags, int priority) {
  BEGIN("cuStreamCreateWithPriority");
  if (flags > 1) return 1;
  *stream = (void *)(intptr_t)(FIRST_STREAM + created++), ++created_lives;
  queue_of(*stream)->is_apart = flags;
  say("stream %llx priority %d\n", (Hex)(uintptr_t)*stream, priority);
  return 0;
}
static int StreamDestroy(void *stream) {
  BEGIN("cuStreamDestroy");
  say("destroy stream %llx\n", (Hex)(uintptr_t)stream), --created_lives;
  return 0;
}
static int BeginCapture(void *stream, int mode) {
  BEGIN("cuStreamBeginCapture");
  Queue *queue = queue_of(stream);
  if (mode != 2 || queue->recorded || graph_count == MOST_GRAPHS || !queue->is_apart) return 1;
  queue->recorded = ++graph_count;
  say("record into graph %llx\n", (Hex)(uintptr_t)stream);
  return 0;
}
static int CaptureToGraph(void *stream, void *graph, void **before, void *edges, size_t count, int mode) {
  BEGIN("cuStreamBeginCaptureToGraph");
  Queue *queue = queue_of(stream);
  const int number = (int)(intptr_t)graph;
  if (mode != 2 || queue->recorded || !queue->is_apart || before || edges || count) return 1;
  if (number < 1 || number > graph_count || !graphs[number - 1].is_body || graphs[number - 1].count) return 1;
  queue->recorded = number;
  say("record body %llx\n", (Hex)(uintptr_t)stream);
  return 0;
}
static int EndCapture(void *stream, void **graph) {
  const int number = queue_of(stream)->recorded;
  if (!number) return 1;
  queue_of(stream)->recorded = 0;
  if (!graphs[number - 1].is_body) ++graphs_live;
  *graph = (void *)(intptr_t)number;
  say("%s of %d\n", graphs[number - 1].is_body ? "body" : "graph", graphs[number - 1].count);
  return fails("cuStreamEndCapture") || graphs[number - 1].is_broken ? 901 : 0;
}
// A node is named by its graph and its place in it.
static void *node_of(int graph) { return (void *)(intptr_t)(graph * 1000 + graphs[graph - 1].count); }
static int CaptureInfo(void *stream, int *status, uint64_t *id, void **graph, void *const **before,
                       const void **edges, size_t *count) {
  BEGIN("cuStreamGetCaptureInfo");
  static _Thread_local void *last;
  static const char no_data[8];  // about the edge
  const int number = queue_of(stream)->recorded;
  *status = number != 0;
  if (!number) return 0;
  last = node_of(number);
  *id = number, *graph = (void *)(intptr_t)number, *before = &last, *count = graphs[number - 1].count != 0;
  if (edges) *edges = no_data;
  return 0;
}
static int NewCondition(uint64_t *handle, void *graph, void *context, unsigned value, unsigned flags) {
  BEGIN("cuGraphConditionalHandleCreate");
  if (value || flags || (intptr_t)context != current || condition_count == MOST_CONDITIONS || version < 12040) return 1;
  conditions[condition_count].graph = (int)(intptr_t)graph;
  *handle = ++condition_count;
  return 0;
}
// What the function of the device does: launches that set conditions call it when they run.
void fake_set_condition(uint64_t handle, unsigned value) {
  if (handle < 1 || handle > (uint64_t)condition_count) { say("NO SUCH CONDITION\n"); return; }
  conditions[handle - 1].value = value, conditions[handle - 1].is_set = 1;
}
static void run_graph(void *graph) {
  const int at = (int)(intptr_t)graph - 1;
  for (int i = 0; i < graphs[at].count; ++i) { Op op = graphs[at].nodes[i]; op.work(&op); }
}
static int answer(int at) {
  if (!conditions[at].is_set) say("NOBODY HAS SET THE CONDITION\n");
  const int is_held = conditions[at].is_set && conditions[at].value;
  conditions[at].is_set = 0;
  return is_held;
}
static void do_condition(Op *op) {
  const int at = (int)op->a;
  int rounds = 0;
  if (op->b == 0) {
    void *body = conditions[at].bodies[!answer(at)];
    if (body) run_graph(body);
    return;
  }
  while (answer(at)) {
    if (++rounds > 100000) { say("ENDLESS\n"); return; }
    run_graph(conditions[at].bodies[0]);
  }
}
typedef struct {
  int type, reserved0[3];
  union {
    struct { uint64_t handle; int type; unsigned size; void **bodies; void *context; } condition;
    long long reserved1[29];
  } of;
  long long reserved2;
} Node;
static int AddNode(void **node, void *graph, void *const *before, const void *edges, size_t count, Node *described) {
  BEGIN("cuGraphAddNode");
  const int number = (int)(intptr_t)graph, at = (int)described->of.condition.handle - 1;
  const int kind = described->of.condition.type, size = (int)described->of.condition.size;
  if (described->type != 13 || edges || at < 0 || at >= condition_count) return 1;
  // A launch that comes before it in the same graph has set its condition.
  if (conditions[at].graph != number || conditions[at].nodes++ || count != 1 || *before != node_of(number)) return 1;
  if ((intptr_t)described->of.condition.context != current || kind < 0 || kind > 1 || size < 1) return 1;
  if (size > (kind == 0 && version >= 12080 ? 2 : 1) || graph_count + size > MOST_GRAPHS) return 1;
  if (graphs[number - 1].count == MOST_NODES) return 1;
  for (int i = 0; i < size; ++i) {
    graphs[graph_count].is_body = 1;
    conditions[at].bodies[i] = (void *)(intptr_t)++graph_count;
  }
  described->of.condition.bodies = conditions[at].bodies;
  graphs[number - 1].nodes[graphs[number - 1].count++] = (Op){do_condition, at, kind};
  graphs[number - 1].is_behind = 1;
  *node = node_of(number);
  say("%s of %d\n", kind ? "while" : "if", size);
  return 0;
}
static int NextWaitsFor(void *stream, void **nodes, const void *edges, size_t count, unsigned flags) {
  BEGIN("cuStreamUpdateCaptureDependencies");
  const int number = queue_of(stream)->recorded;
  if (!number || edges || count != 1 || flags != 1 || *nodes != node_of(number)) return 1;
  graphs[number - 1].is_behind = 0;
  return 0;
}
static int Instantiate(void **exec, void *graph, uint64_t flags) {
  BEGIN("cuGraphInstantiate");
  for (int i = 0; i < condition_count; ++i)
    if (conditions[i].graph == (int)(intptr_t)graph && conditions[i].nodes != 1) return 1;
  *exec = graph, ++graphs_live;
  return flags ? 1 : 0;
}
static int GraphDestroy(void *graph) { --graphs_live; return graph ? fails("cuGraphDestroy") : 1; }
static int ExecDestroy(void *exec) { --graphs_live; return exec ? fails("cuGraphExecDestroy") : 1; }
static int GraphLaunch(void *exec, void *stream) {
  BEGIN("cuGraphLaunch");
  say("graph stream %llx\n", (Hex)(uintptr_t)stream);
  const int at = (int)(intptr_t)exec - 1;
  for (int i = 0; i < graphs[at].count; ++i) put(stream, graphs[at].nodes[i]);
  return 0;
}
static int EventCreate(void **event, unsigned flags) {
  BEGIN("cuEventCreate");
  if (event_count == EVENTS) event_count = 0;  // tests keep none for so long
  while (events[event_count].lives) if (++event_count == EVENTS) return 1;
  events[event_count] = (Event){0, 0, 1, flags == 0}, ++events_live;
  *event = (void *)(intptr_t)(++event_count);
  return flags == 0 || flags == 2 ? 0 : 1;
}
static Event *event_at(void *event) { return &events[(intptr_t)event - 1]; }
static int EventRecord(void *event, void *stream) {
  BEGIN("cuEventRecord");
  if (!event_at(event)->lives) return 1;
  say("record stream %llx\n", (Hex)(uintptr_t)stream);
  event_at(event)->queue = queue_of(stream), event_at(event)->behind = queue_of(stream)->put;
  return 0;
}
static void do_wait(Op *op) { if (op->a) advance((Queue *)(uintptr_t)op->a, op->b); }
static int StreamWait(void *stream, void *event, unsigned flags) {
  BEGIN("cuStreamWaitEvent");
  if (flags || !event_at(event)->lives) return 1;
  say("wait stream %llx for %llx\n", (Hex)(uintptr_t)stream,
      (Hex)(event_at(event)->queue ? event_at(event)->queue->stream : 0));
  put(stream, (Op){do_wait, (uint64_t)(uintptr_t)event_at(event)->queue, event_at(event)->behind});
  return 0;
}
static int EventDestroy(void *event) {
  BEGIN("cuEventDestroy");
  if (!event_at(event)->lives) return 1;
  event_at(event)->lives = 0, --events_live;
  return 0;
}
static int EventQuery(void *event) {
  BEGIN("cuEventQuery");
  Queue *queue = event_at(event)->queue;
  return queue && queue->done < event_at(event)->behind ? 600 : 0;
}
static int EventSynchronize(void *event) {
  BEGIN("cuEventSynchronize");
  say("synchronize event\n");
  if (event_at(event)->queue) advance(event_at(event)->queue, event_at(event)->behind);
  return 0;
}
static int EventElapsed(float *milliseconds, void *start, void *end) {
  BEGIN("cuEventElapsedTime");
  if (!event_at(start)->timed || !event_at(end)->timed) return 400;
  if (EventQuery(start) || EventQuery(end)) return 600;
  *milliseconds = (float)(event_at(end)->behind - event_at(start)->behind);
  return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  static const struct { const char *name; void *function; } table[] = {
      {"cuInit", Init}, {"cuGetErrorName", GetErrorName}, {"cuGetErrorString", GetErrorString},
      {"cuDeviceGetDefaultMemPool", DefaultPool}, {"cuMemPoolGetAttribute", PoolGet},
      {"cuMemPoolSetAttribute", PoolSet}, {"cuDriverGetVersion", DriverGetVersion}, {"cuDeviceGet", DeviceGet},
      {"cuDeviceGetName", DeviceGetName}, {"cuDeviceGetAttribute", DeviceGetAttribute},
      {"cuDeviceGetUuid", DeviceGetUuid}, {"cuDeviceTotalMem", DeviceTotalMem}, {"cuMemGetInfo", MemGetInfo},
      {"cuDevicePrimaryCtxRetain", PrimaryRetain}, {"cuDevicePrimaryCtxRelease", PrimaryRelease},
      {"cuCtxPushCurrent", Push}, {"cuCtxPopCurrent", Pop}, {"cuLibraryLoadData", LibraryLoad},
      {"cuKernelSetAttribute", SetAttribute},
      {"cuLibraryGetKernel", GetKernel}, {"cuLaunchKernelEx", Launch}, {"cuMemAllocAsync", AllocAsync},
      {"cuMemFreeAsync", FreeAsync}, {"cuMemcpyDtoDAsync", DtoD}, {"cuMemcpyDtoHAsync", DtoH},
      {"cuMemcpyHtoDAsync", HtoD}, {"cuMemcpy2DAsync", Memcpy2D}, {"cuMemsetD8Async", Set8},
      {"cuMemsetD16Async", Set16}, {"cuMemsetD32Async", Set32}, {"cuMemsetD2D8Async", SetRows8},
      {"cuMemsetD2D16Async", SetRows16}, {"cuMemsetD2D32Async", SetRows32}, {"cuStreamSynchronize", Synchronize},
      {"cuStreamIsCapturing", IsCapturing}, {"cuMemAlloc", Alloc}, {"cuDeviceGetCount", DeviceGetCount},
      {"cuPointerGetAttribute", PointerAttribute},
      {"cuMemHostAlloc", HostAlloc}, {"cuMemFreeHost", FreeHost}, {"cuMemcpyPeerAsync", CopyPeer},
      {"cuCtxSynchronize", SynchronizeContext}, {"cuStreamQuery", StreamQuery},
      {"cuStreamBeginCaptureToGraph", CaptureToGraph}, {"cuStreamGetCaptureInfo", CaptureInfo},
      {"cuGraphConditionalHandleCreate", NewCondition}, {"cuGraphAddNode", AddNode},
      {"cuStreamUpdateCaptureDependencies", NextWaitsFor},
      {"cuStreamBeginCapture", BeginCapture}, {"cuStreamEndCapture", EndCapture}, {"cuGraphDestroy", GraphDestroy},
      {"cuGraphInstantiate", Instantiate}, {"cuGraphInstantiateWithFlags", Instantiate},
      {"cuGraphExecDestroy", ExecDestroy}, {"cuGraphLaunch", GraphLaunch},
      {"cuStreamCreateWithPriority", StreamCreate}, {"cuStreamDestroy", StreamDestroy},
      {"cuEventCreate", EventCreate}, {"cuEventRecord", EventRecord}, {"cuStreamWaitEvent", StreamWait},
      {"cuEventDestroy", EventDestroy}, {"cuEventQuery", EventQuery}, {"cuEventSynchronize", EventSynchronize},
      {"cuEventElapsedTime", EventElapsed}};
  if (status) *status = 0;
  if (flags != 0 || version < 2000) return 1;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(name, table[i].name) == 0) { *function = table[i].function; return 0; }
  }
  *function = 0;
  return 500;
}
