#include "launch.h"

#include <algorithm>
#include <cstring>

namespace jaxwarp {

Counters counters;

namespace {

void RequireLength(const char* name, size_t got, size_t expected) {
  if (got == expected) return;
  RefuseInvalid("attribute '" + std::string(name) + "' has " + std::to_string(got) + " entries where " + std::to_string(expected) +
                " are expected");
}

std::vector<Plan::BufferAxis> Pairs(const std::vector<int64_t>& flat) {
  std::vector<Plan::BufferAxis> pairs;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) pairs.push_back({flat[i], flat[i + 1]});
  return pairs;
}

Plan::Copies ParseCopies(const Attributes& attrs, int64_t parameters) {
  Plan::Copies copies;
  copies.count = attrs.IntegerOr("copies", 0, INT32_MAX, 0);
  if (copies.count == 0) return copies;
  copies.scratch = attrs.Integer("scratch", 0, INT64_MAX);
  copies.parameters = attrs.Integers("copied", 0, parameters - 1);
  const std::vector<int64_t> costs = attrs.Integers("costs", 0, INT64_MAX);
  RequireLength("costs", costs.size(), 3);
  copies.one_thread = costs[0];
  copies.atomic = costs[1];
  copies.copy = std::min(costs[2], INT64_MAX / 2);
  return copies;
}

}  // namespace

const XLA_FFI_Buffer& BufferNumber(const Frame* frame, int64_t number) {
  const int64_t operands = frame->args.size;
  if (number >= operands + frame->rets.size) {
    RefuseInvalid("buffer " + std::to_string(number) + " does not exist: the call has " +
                  std::to_string(operands + frame->rets.size) + " buffers");
  }
  const void* buffer = number < operands ? frame->args.args[number] : frame->rets.rets[number - operands];
  return *static_cast<const XLA_FFI_Buffer*>(buffer);
}

uint32_t ReadU32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

uint64_t ReadU64(std::string_view bytes, size_t at) {
  return uint64_t{ReadU32(bytes, at + 4)} << 32 | ReadU32(bytes, at);
}

int64_t ElementCount(const XLA_FFI_Buffer& buffer) {
  int64_t count = 1;
  for (int64_t axis = 0; axis < buffer.rank; ++axis) count *= buffer.dims[axis];
  return count;
}

static int ElementBytes(XLA_FFI_DataType dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_S8:
    case XLA_FFI_DataType_U8:
      return 1;
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
      return 2;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return 4;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64:
      return 8;
    case XLA_FFI_DataType_C128:
      return 16;
    default:
      RefuseInvalid("a buffer that is to be cleared or copied has an element type that jaxwarp does not know");
  }
}

int64_t ByteCount(const XLA_FFI_Buffer& buffer) {
  int64_t bytes = ElementBytes(buffer.dtype);
  bool empty = false, overflow = false;
  for (int64_t axis = 0; axis < buffer.rank; ++axis) {
    empty |= buffer.dims[axis] == 0;
    overflow |= __builtin_mul_overflow(bytes, buffer.dims[axis], &bytes);
  }
  if (overflow && !empty) RefuseInvalid("a buffer has more than 2^63 - 1 bytes");
  return empty ? 0 : bytes;
}

Plan ParsePlan(const Attributes& attrs, Platform platform, std::string& subject) {
  constexpr int64_t kMax = INT64_MAX, kMostPieces = 1 << 16;  // each is a call of the kernel
  Plan plan;
  plan.name = attrs.String("name");
  subject = plan.Subject();
  plan.symbol = attrs.String("symbol");
  plan.buffers = attrs.Integers("buffers", 0, kMax);
  const auto parameters = static_cast<int64_t>(plan.buffers.size());
  plan.ranks = attrs.Integers("ranks", 0, kMax);
  RequireLength("ranks", plan.ranks.size(), plan.buffers.size());
  plan.zero = attrs.Integers("zero", 0, parameters - 1);

  plan.grid = attrs.Integers("grid", -1, kMax);
  if (plan.grid.empty()) RefuseInvalid("attribute 'grid' is empty");
  const std::vector<int64_t> from = attrs.Integers("grid_from", -1, kMax);
  RequireLength("grid_from", from.size(), 2 * plan.grid.size());
  plan.grid_from = Pairs(from);
  for (size_t i = 0; i < plan.grid.size(); ++i) {
    const auto [buffer, axis] = plan.grid_from[i];
    const bool given = plan.grid[i] >= 0;
    if (given ? buffer != -1 || axis != -1 : buffer < 0 || axis < 0) {
      RefuseInvalid("attributes 'grid' and 'grid_from' disagree about axis " + std::to_string(i));
    }
  }

  const std::vector<int64_t> geometry = attrs.Integers("geometry", kOwnCopies, kMax);
  if (geometry.size() % 2 != 0) RefuseInvalid("attribute 'geometry' has an odd number of entries");
  plan.geometry = Pairs(geometry);
  for (const auto& [parameter, axis] : plan.geometry) {
    const bool known = parameter < parameters;
    const int64_t axes = parameter == kOwnCopies ? 1 : parameter == kGrid ? plan.grid.size() : known ? plan.ranks[parameter] : 0;
    const int64_t merged = parameter < 0 || axis < 0 ? 0 : axis / kMerged;
    if (axis < 0 || merged >= axes || axis - merged * kMerged + merged >= axes) {
      RefuseInvalid("attribute 'geometry' names axis " + std::to_string(axis) + " of parameter " +
                    std::to_string(parameter) + ", which does not exist");
    }
  }

  if (platform == Platform::kCpu) {
    Cutting& cutting = plan.cutting;
    cutting.grain = attrs.Integer("grain", 1, kMax);
    cutting.max_unsplit_threads = attrs.IntegerOr("alone", 1, INT32_MAX, cutting.max_unsplit_threads);
    cutting.max_pieces_per_thread = attrs.IntegerOr("pieces", 1, kMostPieces, cutting.max_pieces_per_thread);
    cutting.rows_per_piece = attrs.IntegerOr("together", 1, INT32_MAX, cutting.rows_per_piece);
    plan.copies = ParseCopies(attrs, parameters);
    plan.reports = Reports(attrs);
  } else {
    plan.block = attrs.Integer("block", 1, 1024);
    plan.blocks = attrs.Integer("blocks", 1, INT32_MAX);  // a one-dimensional grid has no more
    plan.shared_bytes = attrs.IntegerOr("shared_bytes", 0, INT32_MAX, 0);
    plan.index_bits = attrs.Integer("index_bits", 32, 64);
    if (plan.index_bits != 32 && plan.index_bits != 64) RefuseInvalid("attribute 'index_bits' is neither 32 nor 64");
  }
  return plan;
}

Image ParseImage(std::string_view image, Platform platform) {
  constexpr std::string_view kMagic("JAXWARP\0", 8);
  constexpr size_t kHeader = 56, kLengthAt = 16, kDigestAt = 24;
  const auto refuse = [](const std::string& why) {
    throw Refusal(XLA_FFI_Error_Code_DATA_LOSS,
                  "the code image is damaged (" + why + "); trace and lower the program again to rebuild it");
  };
  if (image.size() < kHeader) refuse("shorter than its header");
  if (image.substr(0, kMagic.size()) != kMagic) refuse("it does not start with the mark of a jaxwarp image");
  if (const uint32_t format = ReadU32(image, 8); format != 1) {
    RefuseInvalid("the code image has format " + std::to_string(format) +
                  ", this version of jaxwarp reads format 1; lower the program again with this version");
  }
  if (const uint32_t kind = ReadU32(image, 12); kind != static_cast<uint32_t>(platform)) {
    RefuseInvalid("the code image is of kind " + std::to_string(kind) + ", this platform needs kind " +
                  std::to_string(static_cast<uint32_t>(platform)) + " (1 is CPU, 2 is CUDA)");
  }
  Image result{image.substr(kHeader), {}};
  if (ReadU64(image, kLengthAt) != result.payload.size()) refuse("length mismatch");
  result.digest = Sha256(result.payload);
  if (std::memcmp(result.digest.data(), image.data() + kDigestAt, result.digest.size()) != 0) refuse("digest mismatch");
  return result;
}

Launch::Launch(const Plan& plan, const Frame* frame)
    : parameters_(plan.buffers.size()), pointers_(plan.buffers.size()), geometry_(plan.geometry.size()) {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const XLA_FFI_Buffer& buffer = BufferNumber(frame, plan.buffers[i]);
    if (buffer.rank != plan.ranks[i]) {
      RefuseInvalid("parameter " + std::to_string(i) + " has rank " + std::to_string(buffer.rank) +
                    ", the kernel was compiled for rank " + std::to_string(plan.ranks[i]));
    }
    parameters_[i] = &buffer;
    pointers_[i] = buffer.data;
  }

  SmallArray<int64_t, 8> grid(plan.grid.size());
  for (size_t i = 0; i < plan.grid.size(); ++i) {
    grid[i] = plan.grid[i];
    if (grid[i] >= 0) continue;
    const auto [number, axis] = plan.grid_from[i];
    const XLA_FFI_Buffer& buffer = BufferNumber(frame, number);
    if (axis >= buffer.rank) {
      RefuseInvalid("attribute 'grid_from' names axis " + std::to_string(axis) + " of a buffer of rank " +
                    std::to_string(buffer.rank));
    }
    grid[i] = buffer.dims[axis];
  }
  columns_ = grid[grid.size() - 1];
  bool overflow = false, empty = false;
  for (size_t i = 0; i < grid.size(); ++i) empty |= grid[i] == 0;
  if (!empty) {
    for (size_t i = 0; i + 1 < grid.size(); ++i) overflow |= __builtin_mul_overflow(rows_, grid[i], &rows_);
    overflow |= __builtin_mul_overflow(rows_, columns_, &threads_);
  }
  if (overflow) RefuseInvalid("the launch has more than 2^63 - 1 threads");

  for (size_t i = 0; i < plan.geometry.size(); ++i) {
    const auto [parameter, axis] = plan.geometry[i];
    if (parameter == kOwnCopies) {
      geometry_[i] = 0;
    } else if (parameter == kGrid) {
      geometry_[i] = grid[axis];
    } else {
      const int64_t* extents = parameters_[parameter]->dims + axis % kMerged;
      geometry_[i] = extents[0];
      for (int64_t more = axis / kMerged; more > 0; --more) geometry_[i] *= extents[more];
    }
  }
}

}  // namespace jaxwarp

JAXWARP_EXPORT int64_t jaxwarp_counter(const char* name) {
  using jaxwarp::counters;
  const std::string_view wanted = name;
  if (wanted == "instantiations") return counters.instantiations;
  if (wanted == "images_loaded") return counters.images_loaded;
  if (wanted == "executions") return counters.executions;
  if (wanted == "live_states") return counters.live_states;
  if (wanted == "captures") return counters.captures;
  if (wanted == "graph_updates") return counters.graph_updates;
  if (wanted == "graph_launches") return counters.graph_launches;
  if (wanted == "live_graphs") return counters.live_graphs;
  if (wanted == "shared_tensors") return counters.shared_tensors;
  return -1;
}
