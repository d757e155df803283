// The CPU handler: code images through a loader set once from Python, launches on XLA's thread pool without Python.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "cpu_launch.h"
#include "ieee.h"
#include "parallel.h"

namespace jaxwarp {
namespace {

// Returns the function's address, or null with a text in `error`.
using Loader = void* (*)(const char* payload, int64_t payload_size, const char* digest_hex, const char* symbol,
                         char* error, int64_t error_capacity);

std::atomic<Loader> loader{nullptr};

// Code lives as long as a launch holds it, and the last few pieces longer: an executable is often destroyed and built
// again. Unloading is the loader's work and Python's, which a destructor must not enter; so addresses are put down in
// `unused`, and the loader takes them when it is called next. It counts how often it has given an address out, and each
// of those times ends in `unused` once: what another thread has just been given is not unloaded.
constexpr size_t kKept = 64;
struct Loaded {
  std::mutex mutex;
  std::map<Digest, std::map<std::string, std::weak_ptr<const CpuCode>>> codes;
  std::deque<std::shared_ptr<const CpuCode>> kept;
  std::mutex unused_mutex;  // taken last
  std::vector<void*> unused;
};
Loaded& LoadedImages() {
  static Loaded* loaded = new Loaded;  // never destroyed: XLA's threads may outlive static destructors
  return *loaded;
}

void PutDown(void* address) {
  Loaded& loaded = LoadedImages();
  std::lock_guard<std::mutex> lock(loaded.unused_mutex);
  loaded.unused.push_back(address);
}

// The code, if it is loaded.
std::shared_ptr<const CpuCode> Find(Loaded& loaded, const Digest& digest, const std::string& symbol) {
  const auto found = loaded.codes.find(digest);
  if (found == loaded.codes.end()) return nullptr;
  const auto code = found->second.find(symbol);
  return code == found->second.end() ? nullptr : code->second.lock();
}

// Forgets code that is gone, so that the table does not grow.
void Sweep(Loaded& loaded) {
  for (auto image = loaded.codes.begin(); image != loaded.codes.end();) {
    auto& codes = image->second;
    for (auto code = codes.begin(); code != codes.end();) code = code->second.expired() ? codes.erase(code) : ++code;
    image = codes.empty() ? loaded.codes.erase(image) : ++image;
  }
}

// The loader is entered without any lock of ours. Whoever holds a lock while he waits for Python's interpreter lock can
// meet a thread that has the interpreter lock and waits for ours. So two threads that need the same image at the same
// moment both go into the loader, and the Python side (library.py) lets one work and the other wait: a lock of Python's
// gives up the interpreter lock while it waits.
std::shared_ptr<const CpuCode> Load(const Image& image, const std::string& symbol) {
  Loaded& loaded = LoadedImages();
  {
    std::lock_guard<std::mutex> lock(loaded.mutex);
    if (auto code = Find(loaded, image.digest, symbol)) return code;
  }
  const Loader load = loader.load(std::memory_order_acquire);
  if (load == nullptr) {
    throw Refusal(XLA_FFI_Error_Code_FAILED_PRECONDITION, "there is no loader for CPU code yet; import jaxwarp first");
  }
  char error[8192] = "";
  void* address = load(image.payload.data(), static_cast<int64_t>(image.payload.size()), Hex(image.digest).c_str(),
                       symbol.c_str(), error, sizeof error);
  if (address == nullptr) {
    error[sizeof error - 1] = '\0';
    throw Refusal(XLA_FFI_Error_Code_INTERNAL, "the code image could not be loaded: " +
                                                   std::string(error[0] != '\0' ? error : "the loader gave no reason"));
  }
  // Whatever these hold ends after the lock is given up.
  std::shared_ptr<const CpuCode> dropped, code = std::make_shared<CpuCode>(reinterpret_cast<CpuFunction>(address));
  std::lock_guard<std::mutex> lock(loaded.mutex);
  if (auto other = Find(loaded, image.digest, symbol)) return other;  // another thread's, loaded meanwhile
  Sweep(loaded);
  auto [entry, fresh] = loaded.codes.try_emplace(image.digest);
  if (fresh) counters.images_loaded.fetch_add(1, std::memory_order_relaxed);
  entry->second[symbol] = code;
  loaded.kept.push_back(code);
  if (loaded.kept.size() > kKept) {
    dropped = std::move(loaded.kept.front());
    loaded.kept.pop_front();
  }
  return code;
}

struct CpuState {
  static constexpr const char* kTypeName = "jaxwarp_cpu_launch";
  static XLA_FFI_TypeId id;
  CpuLaunch launch;

  explicit CpuState(CpuLaunch launch) : launch(std::move(launch)) {
    counters.live_states.fetch_add(1, std::memory_order_relaxed);
  }
  ~CpuState() { counters.live_states.fetch_sub(1, std::memory_order_relaxed); }
};
XLA_FFI_TypeId CpuState::id{};

// Piece `i` of `count` nearly equal pieces of 0 ... extent.
int64_t PieceBegin(int64_t extent, int64_t count, int64_t i) {
  return extent / count * i + std::min(i, extent % count);
}

// How a launch is cut: `row_pieces` x `column_pieces` rectangles. Rows are cut first; columns only when there are too
// few rows, at multiples of 64 (the widest vector step of a kernel). Rows that the kernel's code takes `together` stay so,
// if there are as many. Launches of less than two grains are not cut. The
// others are cut smaller than that: what wakes up late, or is slow, finds pieces left, and the last of them is short.
struct Cut {
  static constexpr int64_t kUnit = 64;
  int64_t rows, columns, together, row_pieces = 1, column_pieces = 1;

  Cut(int64_t rows, int64_t columns, int64_t grain, int64_t threads, int64_t pieces, int64_t most_together)
      : rows(rows), columns(columns), together(rows < most_together ? 1 : most_together) {
    if (threads == 1 || rows * columns / 2 < grain) return;
    const int64_t least = std::max<int64_t>(1, grain / 4);
    const int64_t wanted = Even(std::min(pieces * threads, rows * columns / least), threads);
    const int64_t groups = rows / together;
    if (groups >= wanted) {
      const int64_t least_rows = (least + columns - 1) / columns;
      row_pieces = std::max<int64_t>(1, Even(std::min(wanted, rows / least_rows), threads));
      return;
    }
    row_pieces = groups;
    const int64_t least_units = (least + kUnit - 1) / kUnit;
    const int64_t most = std::max<int64_t>(1, columns / kUnit / least_units);
    column_pieces = std::min((wanted + groups - 1) / groups, groups == 1 ? Even(most, threads) : most);
  }

  // As many for each thread: with five pieces for two threads one of them would wait for a fifth of the work.
  static int64_t Even(int64_t pieces, int64_t threads) { return pieces > threads ? pieces / threads * threads : pieces; }

  int64_t count() const { return row_pieces * column_pieces; }
  int64_t row(int64_t i) const {
    return i == row_pieces ? rows : PieceBegin(rows / together, row_pieces, i) * together;
  }
  int64_t column(int64_t i) const {
    return i == column_pieces ? columns : PieceBegin(columns / kUnit, column_pieces, i) * kUnit;
  }
};

void Clear(const Frame* frame, const XLA_FFI_Buffer& buffer) {
  constexpr int64_t kPiece = int64_t{1} << 21;  // below this a helper costs more than it saves
  const int64_t bytes = ByteCount(buffer);
  if (bytes == 0) return;
  char* data = static_cast<char*>(buffer.data);
  const int64_t threads = bytes < 2 * kPiece ? 1 : PoolThreads(frame);
  if (threads == 1) {
    std::memset(data, 0, bytes);
    return;
  }
  ParallelFor(frame, threads, (bytes + kPiece - 1) / kPiece, [=](int64_t i) {
    std::memset(data + i * kPiece, 0, std::min(kPiece, bytes - i * kPiece));
  });
}

}  // namespace

CpuCode::~CpuCode() { PutDown(reinterpret_cast<void*>(function)); }

CpuLaunch::CpuLaunch(const Attributes& attrs, const Attributes& images, const std::string& image, std::string& subject)
    : plan_(ParsePlan(attrs, Platform::kCpu, subject)),
      code_(Load(ParseImage(images.String(image), Platform::kCpu), plan_.symbol)) {}

void CpuLaunch::Run(const Frame* frame) const {
  const Launch launch(plan_, frame);
  for (int64_t parameter : plan_.zero) Clear(frame, launch.parameter(parameter));
  if (launch.threads() == 0) return;

  const int64_t threads = launch.threads() / 2 < plan_.grain ? 1 : PoolThreads(frame);
  const CpuFunction function = code_->function;
  void* const* buffers = launch.pointers();
  const int64_t* geometry = launch.geometry().data();
  if (threads > plan_.alone) {
    const Cut cut(launch.rows(), launch.columns(), plan_.grain, threads, plan_.pieces, plan_.together);
    if (cut.count() > 1) {
      // `launch` outlives every running chunk, since ParallelFor returns after the last one.
      ParallelFor(frame, threads, cut.count(), [=](int64_t i) {
        const int64_t row = i / cut.column_pieces, column = i % cut.column_pieces;
        IeeeArithmetic ieee;
        function(buffers, geometry, cut.row(row), cut.row(row + 1), cut.column(column), cut.column(column + 1));
      });
      return;
    }
  }
  IeeeArithmetic ieee;
  function(buffers, geometry, 0, launch.rows(), 0, launch.columns());
}

}  // namespace jaxwarp

JAXWARP_EXPORT void jaxwarp_set_loader(jaxwarp::Loader loader) {
  jaxwarp::loader.store(loader, std::memory_order_release);
}

// Moves up to `capacity` addresses of code that a launch held and holds no more; returns how many.
JAXWARP_EXPORT int64_t jaxwarp_take_unused(void** addresses, int64_t capacity) {
  jaxwarp::Loaded& loaded = jaxwarp::LoadedImages();
  std::lock_guard<std::mutex> lock(loaded.unused_mutex);
  const auto count = std::min<int64_t>(capacity, loaded.unused.size());
  std::copy_n(loaded.unused.end() - count, count, addresses);
  loaded.unused.resize(loaded.unused.size() - count);
  return count;
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateMaker<CpuState>(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.instantiations.fetch_add(1, std::memory_order_relaxed);
    const Attributes attrs(frame->attrs);
    SetState(frame, std::make_unique<CpuState>(CpuLaunch(attrs, attrs, "image", subject)));
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_execute(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.executions.fetch_add(1, std::memory_order_relaxed);
    const CpuState& state = GetState<CpuState>(frame);
    try {
      state.launch.Run(frame);
    } catch (...) {
      subject = state.launch.Subject();
      throw;
    }
  });
}
