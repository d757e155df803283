// The CPU handler of `jaxwarp_sort`: rows of unsigned keys, sorted, and where each came from.
#include "sort.h"

#include <memory>
#include <type_traits>

namespace jaxwarp {
namespace {

constexpr int64_t kMostKeys = INT32_MAX;  // in a row: places are int32

template <typename Key, typename Parallel>
void SortRows(const Sorted<Key>& all, int64_t rows, const Parallel& parallel) {
  ForRows(rows, parallel, [&](int64_t begin, int64_t end, const auto& helpers) {
    RadixSort<Key, std::decay_t<decltype(helpers)>> sort(helpers);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * all.size;
      sort({all.keys + at, all.size, all.sorted + at, all.order + at});
    }
  });
}

// Where the items of each cell start, of items in the order of cells, whose numbers begin at a bit; after the last cell,
// where the others do.
template <typename Key>
void FindStarts(const Key* items, int64_t size, int bit, int64_t cells, int32_t* start) {
  int64_t next = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t cell = std::min<int64_t>(items[i] >> bit, cells);
    if (cell < next) continue;
    std::fill(start + next, start + cell + 1, static_cast<int32_t>(i));
    next = cell + 1;
  }
  std::fill(start + next, start + cells + 1, static_cast<int32_t>(size));
}

// items -> start
void StartsOfRows(const Frame* frame) {
  if (frame->args.size != 1 || frame->rets.size != 1) RefuseInvalid("starts have one operand and one result");
  const XLA_FFI_Buffer &items = BufferNumber(frame, 0), &start = BufferNumber(frame, 1);
  const bool is_row = items.rank > 0 && items.rank == start.rank && start.dims[start.rank - 1] > 0;
  if (!is_row || !std::equal(items.dims, items.dims + items.rank - 1, start.dims)) {
    RefuseInvalid("starts are as many rows as items");
  }
  if (items.dtype != XLA_FFI_DataType_U32 || start.dtype != XLA_FFI_DataType_S32) RefuseInvalid("starts of other types");
  PrepareResults(frame);
  const int64_t size = items.dims[items.rank - 1], cells = start.dims[start.rank - 1] - 1;
  const int64_t rows = ElementCount(start) / (cells + 1);
  ForRows(rows, PoolFor(frame, ElementCount(start)), [&](int64_t begin, int64_t end, const auto&) {
    for (int64_t i = begin; i < end; ++i) {
      FindStarts(static_cast<const uint32_t*>(items.data) + i * size, size, 0, cells,
                 static_cast<int32_t*>(start.data) + i * (cells + 1));
    }
  });
}

template <typename Key>
void SortCells(const Key* keys, int64_t size, int bit, int32_t* order, int64_t cells, int32_t* start) {
  const OneThread one;
  const std::unique_ptr<Key[]> sorted(new Key[size]);
  RadixSort<Key, OneThread>{one}({keys, size, sorted.get(), order});
  FindStarts(sorted.get(), size, bit, cells, start);
}

bool HaveOneShape(const XLA_FFI_Buffer& a, const XLA_FFI_Buffer& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

template <typename Key>
void SortBuffers(const XLA_FFI_Buffer& keys, const XLA_FFI_Buffer& sorted, const XLA_FFI_Buffer& order,
                 const Frame* frame) {
  const int64_t size = keys.dims[keys.rank - 1], count = ElementCount(keys);
  if (count == 0) return;
  const Sorted<Key> all{static_cast<const Key*>(keys.data), size, static_cast<Key*>(sorted.data),
                        static_cast<int32_t*>(order.data)};
  SortRows(all, count / size, PoolFor(frame, count));
}

void Sort(const Frame* frame) {
  if (frame->args.size != 1 || frame->rets.size != 2) RefuseInvalid("a sort has one operand and two results");
  const XLA_FFI_Buffer &keys = BufferNumber(frame, 0), &sorted = BufferNumber(frame, 1), &order = BufferNumber(frame, 2);
  if (!HaveOneShape(keys, sorted) || !HaveOneShape(keys, order)) RefuseInvalid("the results of a sort have its shape");
  if (keys.rank == 0 || keys.dims[keys.rank - 1] > kMostKeys) RefuseInvalid("a sort takes rows of fewer than 2^31 keys");
  if (sorted.dtype != keys.dtype || order.dtype != XLA_FFI_DataType_S32) RefuseInvalid("the results are of another type");
  PrepareResults(frame);
  switch (keys.dtype) {
    case XLA_FFI_DataType_U32:
      return SortBuffers<uint32_t>(keys, sorted, order, frame);
    case XLA_FFI_DataType_U64:
      return SortBuffers<uint64_t>(keys, sorted, order, frame);
    default:
      RefuseInvalid("a sort takes keys of type uint32 or uint64");
  }
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_sort(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    subject = "sort_pairs";
    Sort(frame);
  });
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_cell_starts(XLA_FFI_CallFrame* frame) {
  using namespace jaxwarp;
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    subject = "HashGrid";
    StartsOfRows(frame);
  });
}

// Outside of JAX, on this thread: the order of items by cell, and where those of each cell start. The cell of a key of 64
// bits is its upper half. False: there was no memory.
JAXWARP_EXPORT bool jaxwarp_sort_cells(const void* keys, int64_t size, int64_t key_bytes, int32_t* order, int64_t cells,
                                       int32_t* start) {
  using namespace jaxwarp;
  try {
    if (key_bytes == 4) {
      SortCells(static_cast<const uint32_t*>(keys), size, 0, order, cells, start);
    } else {
      SortCells(static_cast<const uint64_t*>(keys), size, 32, order, cells, start);
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Outside of JAX, on this thread. False: there was no memory.
JAXWARP_EXPORT bool jaxwarp_sort(const void* keys, int64_t size, int64_t key_bytes, void* sorted, int32_t* order) {
  using namespace jaxwarp;
  const OneThread one;
  try {
    if (key_bytes == 4) {
      RadixSort<uint32_t, OneThread> sort(one);
      sort({static_cast<const uint32_t*>(keys), size, static_cast<uint32_t*>(sorted), order});
    } else {
      RadixSort<uint64_t, OneThread> sort(one);
      sort({static_cast<const uint64_t*>(keys), size, static_cast<uint64_t*>(sorted), order});
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}
