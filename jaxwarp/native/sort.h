// A stable sort of rows of unsigned keys, which says where each came from: radix sort, the lowest digit first.
// Source: D. Knuth, The Art of Computer Programming 3, 5.2.5, algorithm R.
//
// Only bits in which keys of a row differ are looked at, and digits are as wide as those bits divide evenly: cells of a
// grid of a hundred thousand are two passes. Each pass counts the digits of every piece of a row, adds the counts up,
// digit by digit and within a digit piece by piece, and moves: what goes where does not depend on who moves it, so any
// number of threads has one result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "pages.h"
#include "rows.h"

namespace jaxwarp {

template <typename Key>
struct Sorted {
  const Key* keys;
  int64_t size;
  Key* sorted;
  int32_t* order;  // sorted[i] is keys[order[i]]
};

template <typename Key, typename Parallel>
class RadixSort {
 public:
  explicit RadixSort(const Parallel& parallel) : parallel_(parallel) {}

  void operator()(const Sorted<Key>& row) {
    if (row.size == 0) return;
    pieces_ = std::clamp<int64_t>(row.size / kLeastPiece, 1, parallel_.threads);
    const Key differing = Differing(row);
    if (differing == 0) return Copy(row);
    const int low = LowestBit(differing), bits = HighestBit(differing) + 1 - low;
    const int passes = (bits + kMostBits - 1) / kMostBits;
    digit_bits_ = (bits + passes - 1) / passes;
    counts_.resize(pieces_ << digit_bits_);
    const auto given = [&](int64_t i) { return Pair{row.keys[i], static_cast<int32_t>(i)}; };
    const auto result = [&](int64_t at, Pair pair) {
      row.sorted[at] = pair.key;
      row.order[at] = pair.place;
    };
    if (passes == 1) return Pass(row.size, low, given, result);
    Room room(passes > 2 ? 2 * row.size : row.size);
    Pair *from = room.data(), *to = passes > 2 ? from + row.size : nullptr;
    const auto into = [](Pair* pairs) { return [pairs](int64_t at, Pair pair) { pairs[at] = pair; }; };
    const auto out_of = [](const Pair* pairs) { return [pairs](int64_t i) { return pairs[i]; }; };
    Pass(row.size, low, given, into(from));
    for (int pass = 1; pass + 1 < passes; ++pass, std::swap(from, to)) {
      Pass(row.size, low + pass * digit_bits_, out_of(from), into(to));
    }
    Pass(row.size, low + (passes - 1) * digit_bits_, out_of(from), result);
  }

 private:
  // More digits than this at once, and their ends do not fit into the caches of addresses.
  static constexpr int kMostBits = 9;
  static constexpr int64_t kLeastPiece = 1 << 15;

  struct Pair {
    Key key;
    int32_t place;
  };

  // Memory that nobody clears.
  class Room {
   public:
    explicit Room(int64_t size) : data_(std::malloc(size * sizeof(Pair))) {
      if (data_ == nullptr) throw std::bad_alloc();
      PreparePages(data_, size * sizeof(Pair));
    }
    ~Room() { std::free(data_); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    Pair* data() const { return static_cast<Pair*>(data_); }

   private:
    void* data_;
  };

  static int LowestBit(Key bits) { return __builtin_ctzll(bits); }
  static int HighestBit(Key bits) { return 63 - __builtin_clzll(bits); }

  Key Differing(const Sorted<Key>& row) {
    std::vector<Key> found(pieces_);
    EachPiece(row.size, [&](int64_t piece, int64_t begin, int64_t end) {
      Key differing = 0;
      for (int64_t i = begin; i < end; ++i) differing |= row.keys[i] ^ row.keys[0];
      found[piece] = differing;
    });
    Key all = 0;
    for (const Key one : found) all |= one;
    return all;
  }

  void Copy(const Sorted<Key>& row) {
    EachPiece(row.size, [&](int64_t, int64_t begin, int64_t end) {
      std::copy(row.keys + begin, row.keys + end, row.sorted + begin);
      for (int64_t i = begin; i < end; ++i) row.order[i] = static_cast<int32_t>(i);
    });
  }

  template <typename Read, typename Write>
  void Pass(int64_t size, int shift, Read read, Write write) {
    const Key mask = (Key{1} << digit_bits_) - 1;
    EachPiece(size, [&](int64_t piece, int64_t begin, int64_t end) {
      int64_t* counts = counts_.data() + (piece << digit_bits_);
      std::fill_n(counts, mask + 1, 0);
      for (int64_t i = begin; i < end; ++i) ++counts[(read(i).key >> shift) & mask];
    });
    AddUp();
    EachPiece(size, [&](int64_t piece, int64_t begin, int64_t end) {
      int64_t* next = counts_.data() + (piece << digit_bits_);
      for (int64_t i = begin; i < end; ++i) {
        const Pair pair = read(i);
        write(next[(pair.key >> shift) & mask]++, pair);
      }
    });
  }

  // Of counts, where each begins.
  void AddUp() {
    int64_t sum = 0;
    for (int64_t digit = 0; digit < int64_t{1} << digit_bits_; ++digit) {
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        int64_t& count = counts_[(piece << digit_bits_) + digit];
        sum += std::exchange(count, sum);
      }
    }
  }

  template <typename Work>
  void EachPiece(int64_t size, Work work) {
    parallel_(pieces_, [&](int64_t piece) {
      work(piece, PieceBegin(size, pieces_, piece), PieceBegin(size, pieces_, piece + 1));
    });
  }

  const Parallel& parallel_;
  int64_t pieces_ = 1;
  int digit_bits_ = 0;
  std::vector<int64_t> counts_;
};

}  // namespace jaxwarp
