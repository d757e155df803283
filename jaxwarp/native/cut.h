// How a launch on the CPU is cut into rectangles.
#pragma once

#include <algorithm>
#include <cstdint>

namespace jaxwarp {

// Piece `i` of `count` nearly equal pieces of 0 ... extent.
inline int64_t PieceBegin(int64_t extent, int64_t count, int64_t i) {
  return extent / count * i + std::min(i, extent % count);
}

// What decides how launches of a kernel are cut. codegen/abi.py declares it (`Cut`), and the grain.
struct Cutting {
  int64_t grain = 1, max_unsplit_threads = 1, max_pieces_per_thread = 16, rows_per_piece = 1;

  // Whether a second thread can be of use.
  bool IsWorthSharing(int64_t threads) const { return threads / 2 >= grain; }
};

// How a launch is cut: `row_pieces` x `column_pieces` rectangles. Rows are cut first; columns only when there are too
// few rows, at multiples of 64 (the widest vector step of a kernel). Rows are cut at multiples of `rows_per_piece`, if
// there are as many. Launches of less than two grains are not cut. The others are cut smaller than that: what wakes up
// late, or is slow, finds pieces left, and the last of them is short.
struct Cut {
  static constexpr int64_t kUnit = 64;
  int64_t rows, columns, rows_per_piece, row_pieces = 1, column_pieces = 1;

  // One rectangle.
  Cut(int64_t rows, int64_t columns) : rows(rows), columns(columns), rows_per_piece(1) {}

  // For a pool of so many threads.
  Cut(int64_t rows, int64_t columns, const Cutting& cutting, int64_t threads)
      : Cut(rows, columns, cutting.grain, threads > cutting.max_unsplit_threads ? threads : 1,
            cutting.max_pieces_per_thread, cutting.rows_per_piece) {}

  Cut(int64_t rows, int64_t columns, int64_t grain, int64_t threads, int64_t max_pieces, int64_t most_rows)
      : rows(rows), columns(columns), rows_per_piece(rows < most_rows ? 1 : most_rows) {
    if (threads == 1 || rows * columns / 2 < grain) return;
    const int64_t least = std::max<int64_t>(1, grain / 4);
    const int64_t wanted = Even(std::min(max_pieces * threads, rows * columns / least), threads);
    const int64_t groups = rows / rows_per_piece;
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
    return i == row_pieces ? rows : PieceBegin(rows / rows_per_piece, row_pieces, i) * rows_per_piece;
  }
  int64_t column(int64_t i) const {
    return i == column_pieces ? columns : PieceBegin(columns / kUnit, column_pieces, i) * kUnit;
  }
};

}  // namespace jaxwarp
