// The CPU handler: code images through a loader set once from Python, launches on XLA's thread pool without Python.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "copies.h"
#include "cpu_launch.h"
#include "pages.h"
#include "parallel.h"
#include "python.h"

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
  const Python::Visit visit;
  if (!visit) throw Refusal(XLA_FFI_Error_Code_CANCELLED, "the code image could not be loaded: Python is ending");
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

// For each piece of a launch that runs on copies: more than one, so that pieces of few rows are about equal.
constexpr int64_t kRectangles = 4;

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
  RunKernel(frame);
  plan_.reports.Require(frame);
}

void CpuLaunch::RunKernel(const Frame* frame) const {
  const Launch launch(plan_, frame);
  const Cutting& cutting = plan_.cutting;
  const int64_t threads = cutting.IsWorthSharing(launch.threads()) ? PoolThreads(frame) : 1;
  if (const int64_t pieces = plan_.copies.Pieces(threads); pieces > 1) {
    const Cut cut(launch.rows(), launch.columns(), cutting.grain, pieces, kRectangles, cutting.rows_per_piece);
    if (cut.count() > 1) return RunOnCopies(frame, launch, cut, std::min(pieces, cut.count()));
  }
  for (int64_t parameter : plan_.zero) Clear(frame, launch.parameter(parameter));
  if (launch.threads() == 0) return;

  // `launch` outlives every running chunk, since ParallelFor returns after the last one.
  const Rectangles work{code_->function, launch.pointers(), launch.geometry().data(),
                        Cut(launch.rows(), launch.columns(), cutting, threads)};
  if (work.cut.count() > 1) {
    ParallelFor(frame, threads, work.cut.count(), work);
  } else {
    work(0);
  }
}

void CpuLaunch::RunOnCopies(const Frame* frame, const Launch& launch, const Cut& cut, int64_t pieces) const {
  const Plan::Copies& plan = plan_.copies;
  const Copies copies(launch, plan, BufferNumber(frame, plan.scratch));
  std::vector<char> is_cleared(plan.parameters.size());  // by the piece that adds to the array itself
  for (int64_t parameter : plan_.zero) {
    const auto found = std::find(plan.parameters.begin(), plan.parameters.end(), parameter);
    if (found == plan.parameters.end()) {
      Clear(frame, launch.parameter(parameter));
    } else {
      is_cleared[found - plan.parameters.begin()] = true;
    }
  }
  SmallArray<int64_t, 16> geometry(launch.geometry().size());
  for (size_t i = 0; i < geometry.size(); ++i) {
    geometry[i] = plan_.geometry[i].buffer == kOwnCopies ? 1 : launch.geometry()[i];
  }
  // What lies on this stack outlives every running piece, since ParallelFor returns after the last one.
  ParallelFor(frame, pieces, pieces, [&, this](int64_t i) {
    SmallArray<void*, 16> buffers(launch.parameter_count());
    std::copy_n(launch.pointers(), launch.parameter_count(), buffers.data());
    if (i > 0) {
      copies.Fill(i - 1);
      for (size_t k = 0; k < plan.parameters.size(); ++k) buffers[plan.parameters[k]] = copies.data(i - 1, k);
    } else {
      for (size_t k = 0; k < plan.parameters.size(); ++k) {
        const XLA_FFI_Buffer& array = launch.parameter(plan.parameters[k]);
        if (is_cleared[k]) std::memset(array.data, 0, ByteCount(array));
      }
    }
    const Rectangles work{code_->function, buffers.data(), geometry.data(), cut};
    for (int64_t at = PieceBegin(cut.count(), pieces, i); at < PieceBegin(cut.count(), pieces, i + 1); ++at) work(at);
  });
  ParallelFor(frame, pieces, copies.parts(), [&](int64_t i) {
    IeeeArithmetic ieee;
    copies.AddPart(i, pieces - 1);
  });
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
    RequireSeal(frame->attrs);
    const Attributes attrs(frame->attrs);
    SetState(frame, std::make_unique<CpuState>(CpuLaunch(attrs, attrs, "image", subject)));
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_execute(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    counters.executions.fetch_add(1, std::memory_order_relaxed);
    const auto state = GetState<CpuState>(frame);
    PrepareResults(frame);
    try {
      state->launch.Run(frame);
    } catch (const CheckFailure&) {
      throw;
    } catch (...) {
      subject = state->launch.Subject();
      throw;
    }
  });
}
