// What works on rows alone: norm, sum, gate, rotation, and the search of logits.
//
// Included once per level inside that level's namespace, after its simd header. A lane's result depends on that lane
// alone, and sums over a row run in an order that its width fixes.

// A row's last lanes, fewer than 16: memory past them is not touched.
inline F16 load_first(const float* p, int64_t count) {
  float lanes[16] = {};
  memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
inline void store_first(float* p, F16 a, int64_t count) {
  float lanes[16];
  store(lanes, a);
  memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}

// Calls each(offset, load, store) for all lanes of [0, width).
template <class Each>
inline void for_lanes(int64_t width, Each each) {
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) each(i, [](const float* p) { return load(p); }, [](float* p, F16 a) { store(p, a); });
  if (int64_t rest = width - i)
    each(i, [rest](const float* p) { return load_first(p, rest); }, [rest](float* p, F16 a) { store_first(p, a, rest); });
}

// e^x with a relative error below 1.2e-7; 0 from -104 down, infinity from 89 up, NaN of NaN; exactly 1 of 0.
inline F16 exp(F16 x) {
  const F16 log2_e = set1(1.44269504f), ln2_high = set1(-0.693147182f), ln2_low = set1(1.90465421e-9f);
  x = min(set1(89.0f), max(set1(-104.0f), x));  // of a NaN, min and max return their second argument
  F16 n = round_even(mul(x, log2_e));
  F16 f = fma(n, ln2_low, fma(n, ln2_high, x));
  // (e^f - 1 - f) / f^2 on [-ln2 / 2, ln2 / 2], to 3e-9 of e^f
  F16 p = fma(set1(1.3814467e-3f), f, set1(8.368781e-3f));
  p = fma(p, f, set1(4.1668393e-2f));
  p = fma(p, f, set1(1.666652e-1f));
  p = fma(p, f, set1(4.9999994e-1f));
  p = fma(mul(f, f), p, f);
  return scale2(add(set1(1.0f), p), n);
}

// Squares go to four sums in turn, 16 lanes each; out may be x.
inline void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t width, float* out) {
  for (int64_t row = 0; row < rows; row++, x += width, out += width) {
    F16 squares[4] = {zero(), zero(), zero(), zero()};
    for_lanes(width, [&](int64_t i, auto get, auto) {
      F16 v = get(x + i);
      squares[i / 16 % 4] = fma(v, v, squares[i / 16 % 4]);
    });
    float square = sum(add(add(squares[0], squares[1]), add(squares[2], squares[3])));
    F16 inverse = set1(1.0f / std::sqrt(square / static_cast<float>(width) + eps));
    for_lanes(width, [&](int64_t i, auto get, auto put) { put(out + i, mul(mul(get(x + i), inverse), get(weight + i))); });
  }
}

inline void add(float* x, const float* y, int64_t count) {
  for_lanes(count, [&](int64_t i, auto get, auto put) { put(x + i, add(get(x + i), get(y + i))); });
}

inline void silu_mul(const float* gate_up, int64_t rows, int64_t inner, float* out) {
  for (int64_t row = 0; row < rows; row++, gate_up += 2 * inner, out += inner)
    for_lanes(inner, [&](int64_t i, auto get, auto put) {
      F16 gate = get(gate_up + i), up = get(gate_up + inner + i);
      put(out + i, mul(div(gate, add(exp(sub(zero(), gate)), set1(1.0f))), up));
    });
}

inline void rope(float* heads_of_row, int32_t num_heads, int32_t head_dim, const float* cos, const float* sin) {
  const int32_t half = head_dim / 2;
  for (int32_t head = 0; head < num_heads; head++) {
    float* first = heads_of_row + int64_t{head} * head_dim;
    float* second = first + half;
    for_lanes(half, [&](int64_t i, auto get, auto put) {
      F16 a = get(first + i), b = get(second + i), c = get(cos + i), s = get(sin + i);
      put(first + i, sub(mul(a, c), mul(b, s)));
      put(second + i, add(mul(b, c), mul(a, s)));
    });
  }
}

// ---- logits

// The largest of up to kSearchWidth values, and in `check` 0, or NaN where a value is not finite.
inline float largest(const float* values, int64_t width, F16& check) {
  F16 best[4], odd[4] = {zero(), zero(), zero(), zero()};
  for (F16& b : best) b = set1(-INFINITY);
  int64_t i = 0;
  for (; i + 64 <= width; i += 64)
    for (int j = 0; j < 4; j++) {
      F16 v = load(values + i + 16 * j);
      best[j] = max(best[j], v);
      odd[j] = fma(v, zero(), odd[j]);
    }
  for (; i < width; i += 16) {
    int count = static_cast<int>(std::min<int64_t>(16, width - i));
    F16 v = load_first(values + i, count);
    best[0] = max(best[0], first_or(v, count, -INFINITY));
    odd[0] = fma(v, zero(), odd[0]);
  }
  check = add(check, add(add(odd[0], odd[1]), add(odd[2], odd[3])));
  return max_lane(max(max(best[0], best[1]), max(best[2], best[3])));
}

inline int32_t argmax_row(const float* row, int64_t width) {
  float best = -INFINITY;
  int64_t place = 0;
  F16 check = zero();
  for (int64_t i = 0; i < width; i += kSearchWidth) {
    float here = largest(row + i, std::min(kSearchWidth, width - i), check);
    if (here > best) {
      best = here;
      place = i;
    }
  }
  if (std::isnan(sum(check))) return -1;
  while (row[place] != best) place++;
  return static_cast<int32_t>(place);
}

inline void argmax(const float* rows, int64_t count, int64_t width, int32_t* out) {
  for (int64_t row = 0; row < count; row++) out[row] = argmax_row(rows + row * width, width);
}
