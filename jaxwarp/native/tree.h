// Trees over boxes, in heap order: geometry/tree.py has the same in JAX, which is what the results are held to, bit by bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ieee.h"
#include "rows.h"

namespace jaxwarp {

constexpr double kPerLeaf = 4.4;  // items, at most, on average, as in tree.py
constexpr int kWordsOfNode = 8;

// The levels of inner nodes above the leaves. No number of items is 4.4 times a power of two, so rounding is no matter.
inline int DepthOf(int64_t count) {
  int depth = 0;
  for (double most = kPerLeaf; static_cast<double>(count) > most; most *= 2) ++depth;
  return depth;
}

// The levels that suffice for any groups of so many items: a group has no more leaves than items.
inline int GroupedDepthOf(int64_t count) {
  int depth = 0;
  while ((int64_t{1} << depth) < count) ++depth;
  return depth;
}

// Three coordinates, one vector of the processor; the fourth is 0. Comparisons give -1 and 0.
typedef float Point __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));

inline Point Same(float x) { return Point{x, x, x, 0}; }
#if defined(__x86_64__)  // fewer instructions than compilers find
inline Point Load(const float* at) {
  double two;  // copied: to read floats through a pointer to doubles is undefined
  std::memcpy(&two, at, sizeof(two));
  return _mm_movelh_ps(_mm_castpd_ps(_mm_set_sd(two)), _mm_load_ss(at + 2));
}
inline void Store(const Point& point, float* at) {
  _mm_storel_pi(reinterpret_cast<__m64*>(at), point), _mm_store_ss(at + 2, _mm_movehl_ps(point, point));
}
inline Ints AreNan(const Point& a, const Point& b) { return reinterpret_cast<Ints>(_mm_cmpunord_ps(a, b)); }
inline Point Least(const Point& a, const Point& b) { return _mm_min_ps(b, a); }
inline Point Most(const Point& a, const Point& b) { return _mm_max_ps(b, a); }
#else
inline Point Load(const float* at) { return Point{at[0], at[1], at[2], 0}; }
inline void Store(const Point& point, float* at) { std::memcpy(at, &point, 2 * sizeof(float)), at[2] = point[2]; }
inline Ints AreNan(const Point& a, const Point& b) { return (a != a) | (b != b); }
inline Point Least(const Point& a, const Point& b) { return b < a ? b : a; }
inline Point Most(const Point& a, const Point& b) { return a < b ? b : a; }
#endif
inline Point With(const Point& point, const Ints& bits) {
  return reinterpret_cast<Point>(reinterpret_cast<Ints>(point) | bits);
}
inline bool All(const Ints& all) {
#if defined(__x86_64__)
  return (_mm_movemask_ps(reinterpret_cast<__m128>(all)) & 7) == 7;
#else
  return (all[0] & all[1] & all[2]) != 0;
#endif
}

struct Box {
  static constexpr float kNone = std::numeric_limits<float>::infinity(), kFurthest = 1e25f;
  Point low, high;

  static Box Empty() { return {Same(kNone), Same(-kNone)}; }
  void Add(const Box& other) { low = Least(low, other.low), high = Most(high, other.high); }
  // Bounds that are NaN, infinite or the wrong way round are those of none.
  bool IsUsable() const {
    const Point most = Same(std::numeric_limits<float>::max());
    return All((low >= -most) & (high <= most) & (low <= high));
  }
  // What is further away counts as that far: rays and grids are computed with products of it.
  Box Reached() const {
    const Point most = Same(kFurthest);
    return {Most(Least(low, most), -most), Most(Least(high, most), -most)};
  }
};

// An operand that is no order of ours reads nothing that is not there.
inline int64_t Within(int32_t item, int64_t size) { return std::clamp<int64_t>(item, 0, size - 1); }

inline void Prefetch(const void* address) { __builtin_prefetch(address); }

// Of one tree. Groups, and what is told of them, are null where there are none.
struct TreeOrder {
  const float *lowers, *uppers;  // (size, 3)
  const int32_t* groups;         // (size)
  int64_t size;
  int32_t* order;                                            // (size)
  int32_t *first = nullptr, *names = nullptr, *roots = nullptr;  // (leaves + 1), (size), (size)
};

// The order of the leaves: items are halved at medians, along the axis in which their centres spread most; equal ones go
// by number. Which items a part has does not depend on how they are arranged in it, so neither does anything else.
template <typename Parallel>
class TreeOrdering {
 public:
  explicit TreeOrdering(const Parallel& parallel) : parallel_(parallel) {}

  void operator()(const TreeOrder& tree) {
    if (tree.size > size_) items_.reset(new Item[size_ = tree.size]);
    std::vector<Part> parts = tree.groups == nullptr ? Whole(tree) : Grouped(tree);
    const int64_t pieces = parallel_.threads;
    parallel_(pieces, [&](int64_t piece) {
      const IeeeArithmetic ieee;
      for (int64_t i = PieceBegin(tree.size, pieces, piece); i < PieceBegin(tree.size, pieces, piece + 1); ++i) {
        Centre(tree, items_[i]);
      }
    });
    while (parallel_.threads > 1 && static_cast<int64_t>(parts.size()) < kParts * parallel_.threads && SplitAll(parts)) {
    }
    parallel_(static_cast<int64_t>(parts.size()), [&](int64_t i) {
      const IeeeArithmetic ieee;
      Halve(parts[i]);
    });
    for (int64_t i = 0; i < tree.size; ++i) tree.order[i] = items_[i].number;
  }

 private:
  static constexpr int64_t kParts = 8;  // for each thread: whoever is late finds some left

  struct Item {
    float centre[3];  // infinite of no box, which comes last
    int32_t number;
  };

  struct Part {
    Item* items;
    int64_t size;
    int depth;
    Part Left() const { return {items, (size + 1) / 2, depth - 1}; }
    Part Right() const { return {items + (size + 1) / 2, size / 2, depth - 1}; }
  };

  std::vector<Part> Whole(const TreeOrder& tree) {
    for (int64_t i = 0; i < tree.size; ++i) items_[i].number = static_cast<int32_t>(i);
    return {{items_.get(), tree.size, DepthOf(tree.size)}};
  }

  // Each group is the part below one node: larger ones come first, so that none straddles.
  std::vector<Part> Grouped(const TreeOrder& tree) {
    struct Group {
      int32_t name;
      int depth;
      std::vector<int32_t>::const_iterator begin, end;
    };
    std::vector<int32_t> numbers(tree.size);
    for (int64_t i = 0; i < tree.size; ++i) numbers[i] = static_cast<int32_t>(i);
    std::stable_sort(numbers.begin(), numbers.end(),
                     [&](int32_t a, int32_t b) { return tree.groups[a] < tree.groups[b]; });
    std::vector<Group> groups;
    for (auto begin = numbers.cbegin(); begin != numbers.cend();) {
      const int32_t name = tree.groups[*begin];
      const auto end = std::find_if(begin, numbers.cend(), [&](int32_t i) { return tree.groups[i] != name; });
      groups.push_back({name, DepthOf(end - begin), begin, end});
      begin = end;
    }
    std::fill_n(tree.names, tree.size, std::numeric_limits<int32_t>::max());
    std::fill_n(tree.roots, tree.size, -1);
    std::vector<int32_t> by_size(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) by_size[i] = static_cast<int32_t>(i);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](int32_t a, int32_t b) { return groups[a].depth > groups[b].depth; });
    std::vector<Part> parts;
    const int depth = GroupedDepthOf(tree.size);
    const int64_t leaves = int64_t{1} << depth;
    int64_t leaf = 0, place = 0;
    for (const int32_t i : by_size) {
      const Group& group = groups[i];
      const int64_t size = group.end - group.begin;
      tree.names[i] = group.name;
      tree.roots[i] = static_cast<int32_t>((leaves + leaf) >> group.depth);
      Item* items = items_.get() + place;
      for (auto number = group.begin; number != group.end; ++number) (items++)->number = *number;
      parts.push_back({items_.get() + place, size, group.depth});
      Starts(tree.first + leaf, place, size, group.depth);
      leaf += int64_t{1} << group.depth;
      place += size;
    }
    std::fill(tree.first + leaf, tree.first + leaves + 1, static_cast<int32_t>(tree.size));
    return parts;
  }

  // Where the items of each leaf start.
  static void Starts(int32_t* first, int64_t place, int64_t size, int depth) {
    if (depth == 0) {
      *first = static_cast<int32_t>(place);
      return;
    }
    Starts(first, place, (size + 1) / 2, depth - 1);
    Starts(first + (int64_t{1} << (depth - 1)), place + (size + 1) / 2, size / 2, depth - 1);
  }

  static void Centre(const TreeOrder& tree, Item& item) {
    const Box box{Load(tree.lowers + 3 * int64_t{item.number}), Load(tree.uppers + 3 * int64_t{item.number})};
    // + 0: there is one zero.
    Store(box.IsUsable() ? (box.low * 0.5f + box.high * 0.5f) + 0.0f : Same(Box::kNone), item.centre);
  }

  static int LongestAxis(const Part& part) {
    Box box = Box::Empty();
    for (int64_t i = 0; i < part.size; ++i) {
      const Point centre = Load(part.items[i].centre);
      if (centre[0] < Box::kNone) box.Add({centre, centre});
    }
    int axis = 0;
    for (int k = 1; k < 3; ++k) {
      if (box.high[k] - box.low[k] > box.high[axis] - box.low[axis]) axis = k;
    }
    return axis;
  }

  // Before the middle is what is less.
  static void Split(const Part& part) {
    const int axis = LongestAxis(part);
    const auto is_less = [axis](const Item& a, const Item& b) {
      const float x = a.centre[axis], y = b.centre[axis];
      return x < y || (x == y && a.number < b.number);
    };
    // The parts of a last split are leaves, in which items have an order, too.
    if (part.depth == 1) return std::sort(part.items, part.items + part.size, is_less);
    std::nth_element(part.items, part.Right().items, part.items + part.size, is_less);
  }

  static void Halve(const Part& part) {
    if (part.depth == 0 || part.size == 0) return;
    Split(part);
    Halve(part.Left());
    Halve(part.Right());
  }

  // Parts that have parts, in the place of them. False: there are none.
  bool SplitAll(std::vector<Part>& parts) {
    std::vector<Part> given, halves;
    for (const Part& part : parts) (part.depth > 0 && part.size > 0 ? given : halves).push_back(part);
    parallel_(static_cast<int64_t>(given.size()), [&](int64_t i) {
      const IeeeArithmetic ieee;
      Split(given[i]);
    });
    for (const Part& part : given) {
      halves.push_back(part.Left());
      halves.push_back(part.Right());
    }
    parts = std::move(halves);
    return !given.empty();
  }

  const Parallel& parallel_;
  std::unique_ptr<Item[]> items_;
  int64_t size_ = 0;
};

// Of one tree with 2^depth leaves.
struct TreeBoxes {
  const float *lowers, *uppers;  // (size, 3)
  const int32_t *order, *first;  // (size), (leaves + 1)
  int64_t size, leaves;
  uint32_t* nodes;  // (leaves, kWordsOfNode)
  float* grid;      // (2, 3): its origin, its steps
};

// The boxes of the nodes, each that of its two children, and then on a grid over all, rounded outwards.
template <typename Parallel>
class TreeBoxing {
 public:
  explicit TreeBoxing(const Parallel& parallel) : parallel_(parallel) {}

  void operator()(const TreeBoxes& tree) {
    (*this)(tree, [&](int64_t place) {
      constexpr int64_t kSoon = 8;
      if (place + kSoon < tree.size) {  // items jump about in memory
        const int64_t soon = Within(tree.order[place + kSoon], tree.size);
        Prefetch(tree.lowers + 3 * soon), Prefetch(tree.uppers + 3 * soon);
      }
      const int64_t item = Within(tree.order[place], tree.size);
      return Box{Load(tree.lowers + 3 * item), Load(tree.uppers + 3 * item)};
    });
  }

  // `box_at` gives the box of the item at a place, and is called once for each place.
  template <typename BoxAt>
  void operator()(const TreeBoxes& tree, BoxAt box_at) {
    if (2 * tree.leaves > size_) boxes_.reset(new Box[size_ = 2 * tree.leaves]);
    int64_t tops = 1;  // subtrees, which share nothing
    while (tops < kParts * parallel_.threads && parallel_.threads > 1 && tops < tree.leaves) tops *= 2;
    parallel_(tops, [&](int64_t i) {
      const IeeeArithmetic ieee;
      const int64_t count = tree.leaves / tops;
      for (int64_t leaf = i * count; leaf < (i + 1) * count; ++leaf) {
        boxes_[tree.leaves + leaf] = OfLeaf(tree, leaf, box_at);
      }
      for (int64_t begin = tree.leaves + i * count, width = count; width > 1;) {
        begin /= 2, width /= 2;
        for (int64_t node = begin; node < begin + width; ++node) Join(node);
      }
    });
    const IeeeArithmetic ieee;
    for (int64_t node = tops - 1; node > 0; --node) Join(node);
    Grid(tree);
    std::fill_n(tree.nodes, kWordsOfNode, 0);
    parallel_(tops, [&](int64_t i) {
      const IeeeArithmetic here;
      const Planes grid(tree);
      for (int64_t node = std::max<int64_t>(1, PieceBegin(tree.leaves, tops, i)); node < PieceBegin(tree.leaves, tops, i + 1);
           ++node) {
        Words(grid, boxes_[2 * node], tree.nodes + node * kWordsOfNode);
        Words(grid, boxes_[2 * node + 1], tree.nodes + node * kWordsOfNode + 3);
        tree.nodes[node * kWordsOfNode + 7] = 0;
      }
    });
  }

 private:
  static constexpr int64_t kParts = 8;
  static constexpr int32_t kLast = 65535;

  template <typename BoxAt>
  static Box OfLeaf(const TreeBoxes& tree, int64_t leaf, BoxAt box_at) {
    Box box = Box::Empty();
    const int64_t end = std::min<int64_t>(tree.first[leaf + 1], tree.size);
    for (int64_t place = std::max(tree.first[leaf], 0); place < end; ++place) {
      const Box item = box_at(place);
      if (item.IsUsable()) box.Add(item);
    }
    return box.Reached();  // of none it is the wrong way round still
  }

  void Join(int64_t node) {
    boxes_[node] = boxes_[2 * node];
    boxes_[node].Add(boxes_[2 * node + 1]);
  }

  // 65,536 planes an axis, that start and end outside of the box of all.
  void Grid(const TreeBoxes& tree) const {
    const Box& all = boxes_[1];
    float low[3], extent[3], longest = 0, furthest = 0;
    for (int k = 0; k < 3; ++k) {
      const bool some = all.low[k] <= all.high[k];
      low[k] = some ? all.low[k] : 0;
      const float high = some ? all.high[k] : 0;
      extent[k] = high - low[k];
      longest = std::max(longest, extent[k]);
      furthest = std::max(furthest, std::max(std::fabs(low[k]), std::fabs(high)));
    }
    const float least = std::max(longest * 1e-5f, furthest * 1e-6f);
    for (int k = 0; k < 3; ++k) {
      const float step = std::max(std::max(extent[k], least), 1e-30f) * static_cast<float>(1.0 / 65528.0);
      tree.grid[k] = low[k] - step - step;
      tree.grid[3 + k] = step;
    }
  }

  // The grid, as words are made on it.
  struct Planes {
    Point origin, per_length;
    explicit Planes(const TreeBoxes& tree)
        : origin(Load(tree.grid)), per_length{1 / tree.grid[3], 1 / tree.grid[4], 1 / tree.grid[5], 0} {}
  };

  // Four words, of which the last is 0: a plane below the lower corner, and one above the upper one, from 0 to kLast.
  // Planes are not negative, so that to cut off is to round down.
  static void Words(const Planes& grid, const Box& box, uint32_t* words) {
    constexpr float kMost = kLast;
    const Point low = (box.low - grid.origin) * grid.per_length, high = (box.high - grid.origin) * grid.per_length;
    const Point from = Least(Most(Same(1), low), Same(kMost + 1)), to = Least(Most(Point{}, high), Same(kMost - 1));
    const Ints below = __builtin_convertvector(from, Ints) - 1, cut = __builtin_convertvector(to, Ints);
    const Ints above = cut + 1 - (__builtin_convertvector(cut, Point) < to);
    const Ints found = ((below | (above << 16)) | ~(box.low <= box.high)) & Ints{-1, -1, -1, 0};
    std::memcpy(words, &found, sizeof(found));
  }

  const Parallel& parallel_;
  std::unique_ptr<Box[]> boxes_;
  int64_t size_ = 0;
};

// Triangles of one mesh.
struct Faces {
  const float* points;             // (vertices, 3)
  const int32_t *indices, *order;  // (size, 3), (size)
  int64_t vertices, size;
  float *corners, *lowers, *uppers;  // (size, 3, 3) in the order given; (size, 3), (size, 3)

  void Place(int64_t begin, int64_t end) const {
    const Faces mesh = *this;  // what is written is no part of it
    for (int64_t place = begin; place < end; ++place) mesh.PlaceOne(place);
  }

  // Gives its box. Of a face that names no vertex all is NaN, and of one with a NaN its bounds are.
  Box PlaceOne(int64_t place) const {
    constexpr int64_t kSoon = 16, kNext = 8;  // faces jump about in memory
    if (place + kSoon < size) Prefetch(indices + 3 * int64_t{order[place + kSoon]});
    if (place + kNext < size) {
      const int64_t next = Within(order[place + kNext], size);
      Prefetch(points + 3 * int64_t{indices[3 * next]});
      Prefetch(lowers + 3 * next), Prefetch(uppers + 3 * next);
    }
    const int64_t face = Within(order[place], size);
    const int32_t* vertex = indices + 3 * face;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kNowhere[3] = {kNan, kNan, kNan};
    const float *x = kNowhere, *y = kNowhere, *z = kNowhere;
    if (IsThere(vertex[0]) & IsThere(vertex[1]) & IsThere(vertex[2])) {
      x = points + 3 * int64_t{vertex[0]}, y = points + 3 * int64_t{vertex[1]}, z = points + 3 * int64_t{vertex[2]};
    }
    float* at = corners + 9 * place;
    const Point a = Load(x), b = Load(y), c = Load(z);
    std::memcpy(at, &a, sizeof(a)), std::memcpy(at + 3, &b, sizeof(b)), Store(c, at + 6);  // each over the last's fourth
    const Ints nan = AreNan(a, b) | AreNan(c, c);  // all bits of a coordinate, which is one
    const Box box{With(Least(a, Least(b, c)), nan), With(Most(a, Most(b, c)), nan)};
    Store(box.low, lowers + 3 * face), Store(box.high, uppers + 3 * face);
    return box;
  }

 private:
  bool IsThere(int32_t vertex) const { return static_cast<uint32_t>(vertex) < static_cast<uint64_t>(vertices); }
};

// Triangles, and the tree over them.
struct MovedFaces {
  Faces faces;
  const int32_t* first;  // (leaves + 1)
  int64_t leaves;
  uint32_t* nodes;  // (leaves, kWordsOfNode)
  float* grid;      // (2, 3): its origin, its steps
};

}  // namespace jaxwarp
