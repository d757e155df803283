// Runs the threads of a CUDA block as fibers: one at a time, each until it has to wait for others.
//
// A barrier waits for all threads of the block, a shuffle for those that its mask names. `together` (__activemask) lets
// every other thread of the warp run until it waits or has ended; those that then wait at the same instruction are
// together, whatever iteration of a loop they are in: as far apart as a GPU may let them get, and no less together.
// What would hang or be undefined on a GPU (a barrier that some threads never reach, a shuffle from a lane that is not
// there) ends the program with a message. A race in shared memory is noted: of two threads that meet at an element
// between two barriers, one stores to it. A copy that nobody waits for stores when its thread waits for its group, and no
// earlier; what it stores to may not be met before.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
#include <ucontext.h>

struct jaxwarp_dim3 { unsigned int x, y, z; };
static thread_local jaxwarp_dim3 blockIdx, threadIdx, blockDim, gridDim;

namespace fibers {

enum State { ready, at_barrier, at_shuffle, at_mask, ended };

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    State state;
    int site;                  // at_mask: which instruction
    unsigned int mask;         // at_shuffle: whom it waits for; after at_mask: who was there
    unsigned long long value;  // at_shuffle: what it offers
    unsigned long long seen[32];
    std::vector<std::vector<std::function<void()>>> groups;  // of copies under way, the last one still open
};

static std::vector<Fiber> threads;
static ucontext_t scheduler;
static unsigned int current;
static void (*body)(void *);
static void *arguments;

static unsigned long long epoch = 1;  // the number of barriers so far
static const char *race = nullptr;    // the first one since it was cleared

static inline void fail(const char *why) {
    std::fprintf(stderr, "CUDA on the host: block %u, thread %u: %s\n", blockIdx.x, current, why);
    std::abort();
}

static inline void start() {
    body(arguments);
    threads[current].state = ended;
    swapcontext(&threads[current].context, &scheduler);
}

static inline void wait(State state) {
    if (threads.empty()) fail("waits for other threads, and is run without them");
    threads[current].state = state;
    swapcontext(&threads[current].context, &scheduler);
}

static inline void wait_for_block() { wait(at_barrier); }

static inline unsigned int together(int site) {
    if (!threads.empty()) threads[current].site = site;
    wait(at_mask);
    return threads[current].mask;
}

static inline void offer(unsigned int mask, unsigned long long value) {
    if (!(mask >> current % 32 & 1)) fail("does a shuffle whose mask does not name it");
    threads[current].mask = mask;
    threads[current].value = value;
    wait(at_shuffle);
}

template <class T> static inline T from_lane(unsigned int mask, T value, unsigned int lane) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move words");
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    offer(mask, bits);
    if (lane > 31) return value;
    // A lane that the mask does not name gives no defined value.
    if (!(mask >> lane & 1)) bits = 0xdeadbeefdeadbeefull; else bits = threads[current].seen[lane];
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

static inline unsigned int votes(unsigned int mask, bool yes) {
    offer(mask, yes);
    unsigned int found = 0;
    for (unsigned int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && threads[current].seen[lane]) found |= 1u << lane;
    return found;
}

// Lets go the threads that wait for nothing more. False: nobody can go on.
static inline bool release() {
    const unsigned int count = threads.size();
    bool any = false, all_at_barrier = true;
    for (unsigned int first = 0; first < count; first += 32) {
        const unsigned int lanes = count - first < 32 ? count - first : 32;
        Fiber *warp = &threads[first];
        for (unsigned int lane = 0; lane < lanes; ++lane) {
            if (warp[lane].state != at_shuffle) continue;
            const unsigned int mask = warp[lane].mask;
            bool complete = true;
            for (unsigned int other = 0; other < 32; ++other)
                if (mask >> other & 1)
                    complete &= other < lanes && warp[other].state == at_shuffle && warp[other].mask == mask;
            if (!complete) continue;
            for (unsigned int to = 0; to < lanes; ++to) {
                if (!(mask >> to & 1)) continue;
                for (unsigned int from = 0; from < lanes; ++from) warp[to].seen[from] = warp[from].value;
                warp[to].state = ready;
            }
            any = true;
        }
        if (any) continue;
        for (unsigned int lane = 0; lane < lanes; ++lane) {
            if (warp[lane].state != at_mask) continue;
            unsigned int mask = 0;
            for (unsigned int other = lane; other < lanes; ++other)
                if (warp[other].state == at_mask && warp[other].site == warp[lane].site) mask |= 1u << other;
            for (unsigned int other = lane; other < lanes; ++other)
                if (mask >> other & 1) warp[other].mask = mask, warp[other].state = ready;
            any = true;
            break;
        }
    }
    if (any) return true;
    for (Fiber &thread : threads) all_at_barrier &= thread.state == at_barrier;
    if (!all_at_barrier) return false;
    for (Fiber &thread : threads) thread.state = ready;
    ++epoch;
    return true;
}

static inline void run_block(unsigned int count, void (*function)(void *), void *with) {
    constexpr size_t stack = 256 * 1024;
    body = function, arguments = with;
    ++epoch;
    threads = std::vector<Fiber>(count);
    for (Fiber &thread : threads) {
        thread.state = ready;
        thread.stack.resize(stack);
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = stack;
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, start, 0);
    }
    do {
        for (current = 0; current < count; ++current) {
            if (threads[current].state != ready) continue;
            threadIdx = {current, 0, 0};
            swapcontext(&scheduler, &threads[current].context);
        }
    } while (release());
    for (current = 0; current < count; ++current)
    {
        if (threads[current].state != ended) fail("waits for threads that never come");
        for (const auto &group : threads[current].groups)
            if (!group.empty()) race = "a thread ends before its copies";
    }
    threads.clear();
}

// An array in shared memory, with the last one to store and those who loaded since the last barrier.
template <class T, unsigned int count> struct Shared {
    struct Seen { unsigned long long stored, loaded; unsigned int by, from; bool by_several, is_coming; };
    T values[count];
    Seen seen[count] = {};
    static void note(const char *what) { if (race == nullptr) race = what; }
    Seen &inside(unsigned int at) {
        if (at >= count) fail("is outside of an array in shared memory");
        return seen[at];
    }
    T load(unsigned int at) {
        Seen &one = inside(at);
        if (one.is_coming) note("a thread loads what a copy has not brought");
        if (one.stored == epoch && one.by != current) note("a thread loads what another one stores");
        one.by_several = one.loaded == epoch && (one.by_several || one.from != current);
        one.loaded = epoch, one.from = current;
        return values[at];
    }
    T operator[](unsigned int at) { return load(at); }
    void store(unsigned int at, T value) {
        Seen &one = inside(at);
        if (one.is_coming) note("a thread stores where a copy is coming");
        if (one.stored == epoch && one.by != current) note("two threads store to one element");
        if (one.loaded == epoch && (one.by_several || one.from != current)) note("a thread stores what another one loads");
        one.stored = epoch, one.by = current;
        values[at] = value;
    }
    // From now on until its thread has waited for it a copy may store.
    void begin(unsigned int at, T value) {
        store(at, values[at]);
        seen[at].is_coming = true;
        std::vector<std::vector<std::function<void()>>> &groups = threads[current].groups;
        if (groups.empty()) groups.emplace_back();
        groups.back().push_back([this, at, value] { seen[at].is_coming = false; store(at, value); });
    }
};

static inline void commit_group() {
    if (threads[current].groups.empty()) threads[current].groups.emplace_back();
    threads[current].groups.emplace_back();
}

// Waits for the copies of all groups but the last `left`; not for those in the group that is still open.
static inline void wait_group(unsigned int left) {
    std::vector<std::vector<std::function<void()>>> &groups = threads[current].groups;
    while (groups.size() > left + 1) {
        for (const std::function<void()> &copy : groups.front()) copy();
        groups.erase(groups.begin());
    }
}

}  // namespace fibers
