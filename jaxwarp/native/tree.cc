// The CPU handlers of trees: their order, their boxes, and the faces of meshes; and the same for arrays outside of JAX.
#include "tree.h"

#include <type_traits>

#include "launch.h"
#include "pages.h"

namespace jaxwarp {
namespace {

// The operands and results of a call: rows of a batch, each of which has a shape of its own.
class Rows {
 public:
  Rows(const Frame* frame, int64_t operands, int64_t results) : frame_(frame), operands_(operands) {
    if (frame->args.size != operands || frame->rets.size != results) {
      RefuseInvalid("expected " + std::to_string(operands) + " operands and " + std::to_string(results) + " results");
    }
    PrepareResults(frame);
  }

  // An extent of the last axes of a buffer, counted from the end.
  int64_t Extent(int64_t number, int64_t from_end) const {
    const XLA_FFI_Buffer& buffer = BufferNumber(frame_, number);
    return buffer.rank < from_end ? Misfit(number) : buffer.dims[buffer.rank - from_end];
  }

  // The buffer, of which a row has so many elements; all buffers have as many rows.
  template <typename T>
  T* Get(int64_t number, int64_t row, XLA_FFI_DataType dtype) {
    const XLA_FFI_Buffer& buffer = BufferNumber(frame_, number);
    const int64_t count = ElementCount(buffer);
    if (buffer.dtype != dtype || (row == 0 ? count != 0 : count % row != 0)) Misfit(number);
    if (row != 0) {
      if (rows_ >= 0 && rows_ != count / row) Misfit(number);
      rows_ = count / row;
    }
    return static_cast<T*>(buffer.data);
  }
  const float* Floats(int64_t number, int64_t row) { return Get<float>(number, row, XLA_FFI_DataType_F32); }
  const int32_t* Ints(int64_t number, int64_t row) { return Get<int32_t>(number, row, XLA_FFI_DataType_S32); }
  float* FloatResult(int64_t i, int64_t row) { return Get<float>(operands_ + i, row, XLA_FFI_DataType_F32); }
  int32_t* IntResult(int64_t i, int64_t row) { return Get<int32_t>(operands_ + i, row, XLA_FFI_DataType_S32); }
  uint32_t* WordResult(int64_t i, int64_t row) { return Get<uint32_t>(operands_ + i, row, XLA_FFI_DataType_U32); }

  int64_t rows() const { return std::max<int64_t>(rows_, 0); }

  // Calls work(row, done by what).
  template <typename Work>
  void Each(int64_t size, Work work) const {
    ForRows(rows(), PoolFor(frame_, rows() * size), [&](int64_t begin, int64_t end, const auto& helpers) {
      work(begin, end, helpers);
    });
  }

 private:
  [[noreturn]] static int64_t Misfit(int64_t number) {
    RefuseInvalid("buffer " + std::to_string(number) + " has another shape or type than the others ask for");
  }
  const Frame* frame_;
  int64_t operands_, rows_ = -1;
};

// The order of a row, with what is told of groups where there are some.
TreeOrder RowOf(const TreeOrder& all, int64_t i) {
  TreeOrder one{all.lowers + 3 * all.size * i, all.uppers + 3 * all.size * i, nullptr, all.size, all.order + all.size * i};
  if (all.groups == nullptr) return one;
  one.groups = all.groups + all.size * i, one.names = all.names + all.size * i, one.roots = all.roots + all.size * i;
  one.first = all.first + ((int64_t{1} << GroupedDepthOf(all.size)) + 1) * i;
  return one;
}

void OrderRows(const Rows& rows, const TreeOrder& all) {
  rows.Each(all.size, [&](int64_t begin, int64_t end, const auto& helpers) {
    TreeOrdering<std::decay_t<decltype(helpers)>> ordering(helpers);
    for (int64_t i = begin; i < end; ++i) ordering(RowOf(all, i));
  });
}

// (lowers, uppers) -> order
void Order(const Frame* frame) {
  Rows rows(frame, 2, 1);
  const int64_t size = rows.Extent(0, 2);
  const TreeOrder all{rows.Floats(0, 3 * size), rows.Floats(1, 3 * size), nullptr, size, rows.IntResult(0, size)};
  OrderRows(rows, all);
}

// (lowers, uppers, groups) -> order, first, names, roots
void GroupedOrder(const Frame* frame) {
  Rows rows(frame, 3, 4);
  const int64_t size = rows.Extent(0, 2), leaves = int64_t{1} << GroupedDepthOf(size);
  const TreeOrder all{rows.Floats(0, 3 * size),    rows.Floats(1, 3 * size),          rows.Ints(2, size),     size,
                      rows.IntResult(0, size), rows.IntResult(1, leaves + 1), rows.IntResult(2, size), rows.IntResult(3, size)};
  OrderRows(rows, all);
}

// (lowers, uppers, order, first) -> nodes, grid
void Boxes(const Frame* frame) {
  Rows rows(frame, 4, 2);
  const int64_t size = rows.Extent(0, 2), leaves = rows.Extent(3, 1) - 1;
  if (leaves < 1 || (leaves & (leaves - 1)) != 0) RefuseInvalid("expected a power of two of leaves");
  const TreeBoxes all{rows.Floats(0, 3 * size), rows.Floats(1, 3 * size), rows.Ints(2, size), rows.Ints(3, leaves + 1),
                      size, leaves, rows.WordResult(0, leaves * kWordsOfNode), rows.FloatResult(1, 6)};
  rows.Each(size, [&](int64_t begin, int64_t end, const auto& helpers) {
    TreeBoxing<std::decay_t<decltype(helpers)>> boxing(helpers);
    for (int64_t i = begin; i < end; ++i) {
      boxing({all.lowers + 3 * size * i, all.uppers + 3 * size * i, all.order + size * i, all.first + (leaves + 1) * i,
              size, leaves, all.nodes + leaves * kWordsOfNode * i, all.grid + 6 * i});
    }
  });
}

template <typename Parallel>
void PlaceFaces(const Faces& mesh, const Parallel& parallel) {
  const int64_t pieces = 8 * parallel.threads;
  parallel(pieces, [&](int64_t i) {
    mesh.Place(PieceBegin(mesh.size, pieces, i), PieceBegin(mesh.size, pieces, i + 1));
  });
}

// (points, indices, order) -> corners, lowers, uppers
void FacesOf(const Frame* frame) {
  Rows rows(frame, 3, 3);
  const int64_t vertices = rows.Extent(0, 2), size = rows.Extent(1, 2);
  const Faces all{rows.Floats(0, 3 * vertices), rows.Ints(1, 3 * size), rows.Ints(2, size), vertices, size,
                  rows.FloatResult(0, 9 * size), rows.FloatResult(1, 3 * size), rows.FloatResult(2, 3 * size)};
  rows.Each(size, [&](int64_t begin, int64_t end, const auto& helpers) {
    for (int64_t i = begin; i < end; ++i) {
      PlaceFaces({all.points + 3 * vertices * i, all.indices + 3 * size * i, all.order + size * i, vertices, size,
                  all.corners + 9 * size * i, all.lowers + 3 * size * i, all.uppers + 3 * size * i},
                 helpers);
    }
  });
}

XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame, void (*call)(const Frame*)) {
  if (IsMetadataQuery(frame)) return DescribeStateUser(frame);
  return Guard(frame->api, [&](std::string& subject) {
    subject = "tree";
    call(frame);
  });
}

// Outside of JAX, on this thread. False: there was no memory.
template <typename Work>
bool OnThisThread(Work work) {
  try {
    work(OneThread());
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace
}  // namespace jaxwarp

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_tree_order(XLA_FFI_CallFrame* frame) {
  return jaxwarp::Handle(frame, jaxwarp::Order);
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_tree_grouped(XLA_FFI_CallFrame* frame) {
  return jaxwarp::Handle(frame, jaxwarp::GroupedOrder);
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_tree_boxes(XLA_FFI_CallFrame* frame) {
  return jaxwarp::Handle(frame, jaxwarp::Boxes);
}

JAXWARP_EXPORT XLA_FFI_Error* jaxwarp_cpu_mesh_faces(XLA_FFI_CallFrame* frame) {
  return jaxwarp::Handle(frame, jaxwarp::FacesOf);
}

JAXWARP_EXPORT bool jaxwarp_tree_order(const jaxwarp::TreeOrder* tree) {
  using namespace jaxwarp;
  return OnThisThread([&](const OneThread& one) { TreeOrdering<OneThread>{one}(*tree); });
}

JAXWARP_EXPORT bool jaxwarp_tree_boxes(const jaxwarp::TreeBoxes* tree) {
  using namespace jaxwarp;
  PreparePages(tree->nodes, tree->leaves * kWordsOfNode * sizeof(uint32_t));
  return OnThisThread([&](const OneThread& one) { TreeBoxing<OneThread>{one}(*tree); });
}

JAXWARP_EXPORT bool jaxwarp_mesh_faces(const jaxwarp::Faces* mesh) {
  using namespace jaxwarp;
  PreparePages(mesh->corners, 9 * mesh->size * sizeof(float));
  return OnThisThread([&](const OneThread& one) { PlaceFaces(*mesh, one); });
}

// Both, of faces that have moved.
JAXWARP_EXPORT bool jaxwarp_mesh_refit(const jaxwarp::MovedFaces* moved) {
  using namespace jaxwarp;
  const Faces faces = moved->faces;
  const TreeBoxes tree{faces.lowers, faces.uppers,  faces.order,  moved->first,
                       faces.size,   moved->leaves, moved->nodes, moved->grid};
  PreparePages(faces.corners, 9 * faces.size * sizeof(float));
  PreparePages(tree.nodes, tree.leaves * kWordsOfNode * sizeof(uint32_t));
  return OnThisThread([&](const OneThread& one) {
    TreeBoxing<OneThread>{one}(tree, [&](int64_t place) { return faces.PlaceOne(place); });
  });
}
