// Stand-ins for compiled CPU kernels.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#define KERNEL(name)                                                                                          \
  void name(void *const *buffers, const int64_t *geometry, int64_t row_begin, int64_t row_end,                \
            int64_t col_begin, int64_t col_end)
#define EACH_THREAD                                                                                           \
  for (int64_t row = row_begin; row < row_end; ++row)                                                         \
    for (int64_t col = col_begin; col < col_end; ++col)

// Every rectangle that `count` was called for.
int64_t rectangles[1 << 14][4];
int64_t rectangle_count;

// buffers: int32 result over the whole grid; geometry: columns.
KERNEL(count) {
  int64_t at = __atomic_fetch_add(&rectangle_count, 1, __ATOMIC_RELAXED);
  int64_t *rectangle = rectangles[at % (1 << 14)];
  rectangle[0] = row_begin, rectangle[1] = row_end, rectangle[2] = col_begin, rectangle[3] = col_end;
  int32_t *out = buffers[0];
  EACH_THREAD __atomic_fetch_add(&out[row * geometry[0] + col], 1, __ATOMIC_RELAXED);
}

// buffers: int32 result; one thread for each geometry value.
KERNEL(tell_geometry) {
  int32_t *out = buffers[0];
  EACH_THREAD out[col] = (int32_t)geometry[col];
}

// buffers: float32 x, float32 result; geometry: columns.
KERNEL(add_one) {
  const float *x = buffers[0];
  float *out = buffers[1];
  EACH_THREAD out[row * geometry[0] + col] = x[row * geometry[0] + col] + 1.0f;
}

// buffers: int32 in-out scalar: how many of the buffers behind it hold their own number; geometry: their count.
KERNEL(check_many) {
  int32_t *right = buffers[0];
  EACH_THREAD for (int64_t i = 1; i <= geometry[0]; ++i) *right += *(int32_t *)buffers[i] == i;
}

// Any buffers, any geometry: for launches that are only looked at.
KERNEL(nothing) {
  (void)buffers, (void)geometry, (void)row_begin, (void)row_end, (void)col_begin, (void)col_end;
}

// Any buffers: 2 milliseconds for each call; counts those that have begun and ended, the threads they were in, and those
// of these that take no SIGINT.
int64_t begun, ended, worker_count, deaf_count;
pthread_t workers[64];

static void note_worker(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  int64_t i = 0;
  while (i < worker_count && !pthread_equal(workers[i], pthread_self())) ++i;
  if (i == worker_count && i < 64) {
    workers[worker_count++] = pthread_self();
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    deaf_count += sigismember(&blocked, SIGINT);
  }
  pthread_mutex_unlock(&mutex);
}

KERNEL(slow) {
  (void)buffers, (void)geometry, (void)row_begin, (void)row_end, (void)col_begin, (void)col_end;
  __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
  note_worker();
  usleep(2000);
  __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
}

// buffers: int32 scalar, to which each call adds 1, by a load and a store 2 milliseconds later.
KERNEL(add_slowly) {
  (void)geometry, (void)row_begin, (void)row_end, (void)col_begin, (void)col_end;
  volatile int32_t *sum = buffers[0];
  const int32_t before = *sum;
  usleep(2000);
  *sum = before + 1;
}
