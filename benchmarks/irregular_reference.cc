// The kernels of irregular_kernels.py by hand: OpenMP over threads, each of which does one after the other, as C++ is
// written for such data. Compiled by irregular.py at full optimisation for the machine it runs on.
#include <algorithm>
#include <cmath>
#include <cstdint>

struct Vec {
  float x, y, z;
};
static inline Vec operator-(Vec a, Vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline Vec operator*(Vec a, float s) { return {a.x * s, a.y * s, a.z * s}; }
static inline float dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vec cross(Vec a, Vec b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
struct Box {
  Vec low, high;
};
struct Node {
  Box child[2];
};
struct Triangle {
  Vec a, b, c;
};

static inline float enters(const Box& box, Vec o, Vec inverse, float far) {
  float ax = (box.low.x - o.x) * inverse.x, bx = (box.high.x - o.x) * inverse.x;
  float ay = (box.low.y - o.y) * inverse.y, by = (box.high.y - o.y) * inverse.y;
  float az = (box.low.z - o.z) * inverse.z, bz = (box.high.z - o.z) * inverse.z;
  float near = std::max(std::max(std::min(ax, bx), std::min(ay, by)), std::max(std::min(az, bz), 0.f));
  float last = std::min(std::min(std::max(ax, bx), std::max(ay, by)), std::min(std::max(az, bz), far));
  return near <= last * 1.0000004f ? near : far;
}

static inline float hits(const Triangle& t, Vec o, Vec d, float far) {
  Vec a = t.a - o, b = t.b - o, c = t.c - o;
  float u = dot(cross(c - b, c + b), d), v = dot(cross(a - c, a + c), d), w = dot(cross(b - a, b + a), d);
  Vec n = cross(c - a, a - b);
  float slope = dot(n, d), at = dot(n, a) / slope;
  bool inside = std::min(u, std::min(v, w)) >= 0 || std::max(u, std::max(v, w)) <= 0;
  return inside && slope != 0 && at >= 0 ? at : far;
}

static inline float square_to_box(const Box& box, Vec p) {
  float x = std::max(std::max(box.low.x - p.x, p.x - box.high.x), 0.f);
  float y = std::max(std::max(box.low.y - p.y, p.y - box.high.y), 0.f);
  float z = std::max(std::max(box.low.z - p.z, p.z - box.high.z), 0.f);
  return x * x + y * y + z * z;
}

static inline float square_to_edge(Vec p, Vec e) {
  Vec q = p - e * std::min(std::max(dot(p, e) / dot(e, e), 0.f), 1.f);
  return dot(q, q);
}

static inline float square_to_triangle(const Triangle& t, Vec p) {
  Vec a = p - t.a, b = p - t.b, c = p - t.c, ab = t.b - t.a, bc = t.c - t.b, ca = t.a - t.c, n = cross(ab, ca);
  float u = dot(cross(ab, n), a), v = dot(cross(bc, n), b), w = dot(cross(ca, n), c), height = dot(n, a);
  if (std::min(u, std::min(v, w)) >= 0 || std::max(u, std::max(v, w)) <= 0) return height * height / dot(n, n);
  return std::min(square_to_edge(a, ab), std::min(square_to_edge(b, bc), square_to_edge(c, ca)));
}

// From the root down, nearer child first; `box` is the distance to one, `leaf` looks at a triangle.
template <typename ToBox, typename Leaf>
static inline void visit(const Node* nodes, int32_t leaves, const int32_t* first, float& best, ToBox box, Leaf leaf) {
  int32_t stack[32], top = 0, node = 1;
  while (true) {
    while (node < leaves) {
      float t0 = box(nodes[node].child[0]), t1 = box(nodes[node].child[1]);
      int32_t near = 2 * node + (t1 < t0);
      if (std::min(t0, t1) < best) {
        if (std::max(t0, t1) < best) stack[top++] = near ^ 1;
        node = near;
      } else if (top) {
        node = stack[--top];
      } else {
        return;
      }
    }
    for (int32_t k = first[node - leaves]; k < first[node - leaves + 1]; k++) leaf(k);
    if (!top) return;
    node = stack[--top];
  }
}

extern "C" {

void rays(int64_t n, int64_t leaves, const Node* nodes, const int32_t* first, const Triangle* triangles,
          const Vec* origins, const Vec* directions, float far, float* out) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; i++) {
    Vec o = origins[i], d = directions[i], inverse = {1 / d.x, 1 / d.y, 1 / d.z};
    float best = far;
    visit(nodes, leaves, first, best, [&](const Box& b) { return enters(b, o, inverse, best); },
          [&](int32_t k) { best = std::min(best, hits(triangles[k], o, d, best)); });
    out[i] = best;
  }
}

void closest(int64_t n, int64_t leaves, const Node* nodes, const int32_t* first, const Triangle* triangles,
             const Vec* points, float far, float* out) {
#pragma omp parallel for schedule(dynamic, 256)
  for (int64_t i = 0; i < n; i++) {
    Vec p = points[i];
    float best = far * far;
    visit(nodes, leaves, first, best, [&](const Box& b) { return square_to_box(b, p); },
          [&](int32_t k) { best = std::min(best, square_to_triangle(triangles[k], p)); });
    out[i] = std::sqrt(best);
  }
}

void neighbours(int64_t n, const int32_t* start, const Vec* points, float radius, int32_t cells, float* out) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; i++) {
    Vec p = points[i];
    auto cell = [&](float x) { return std::min(std::max(int32_t(x / radius), 0), cells - 1); };
    int32_t x = cell(p.x), y = cell(p.y), z = cell(p.z);
    float total = 0;
    for (int32_t k = std::max(z - 1, 0); k < std::min(z + 2, cells); k++)
      for (int32_t j = std::max(y - 1, 0); j < std::min(y + 2, cells); j++) {
        const int32_t* row = start + (k * cells + j) * cells;
        for (int32_t m = row[std::max(x - 1, 0)]; m < row[std::min(x + 2, cells)]; m++) {
          Vec d = points[m] - p;
          float distance = std::sqrt(dot(d, d));
          if (distance < radius) total += 1 - distance / radius;
        }
      }
    out[i] = total;
  }
}

void sparse_rows(int64_t n, const int32_t* start, const int32_t* columns, const float* values, const float* x,
                 float* out) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    float total = 0;
    for (int32_t k = start[i]; k < start[i + 1]; k++) total += values[k] * x[columns[k]];
    out[i] = total;
  }
}

void trilinear(int64_t n, const int64_t* shape, const float* field, const Vec* points, float background, float* out) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    Vec p = points[i];
    int32_t x = std::floor(p.x), y = std::floor(p.y), z = std::floor(p.z);
    float a = p.x - x, b = p.y - y, c = p.z - z;
    out[i] = background;
    if (x < 0 || y < 0 || z < 0 || x + 1 >= shape[0] || y + 1 >= shape[1] || z + 1 >= shape[2]) continue;
    auto along = [&](int64_t x, int64_t y) {
      const float* v = field + (x * shape[1] + y) * shape[2] + z;
      return v[0] + (v[1] - v[0]) * c;
    };
    float v0 = along(x, y) + (along(x, y + 1) - along(x, y)) * b;
    float v1 = along(x + 1, y) + (along(x + 1, y + 1) - along(x + 1, y)) * b;
    out[i] = v0 + (v1 - v0) * a;
  }
}
}
