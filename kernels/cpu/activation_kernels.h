// Rows of activations in the forms that packed weights multiply with.
//
// Included once per level inside that level's namespace, after its simd header.

inline void prepare_bf16(const float* x, int64_t k, uint16_t* out) {
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) store_bf16(out + i, load(x + i));
  if (i == k) return;
  uint16_t last[16];
  store_bf16(last, load_first(x + i, k - i));
  // An odd row ends with half a pair: its weight is zero, and so must it be.
  memcpy(out + i, last, static_cast<size_t>((k - i + 1) / 2 * 2) * sizeof(uint16_t));
}

// The largest magnitude of a group by its bits: those of a NaN are larger than any number's.
inline float largest_magnitude(const float* x) {
  uint32_t largest = 0;
  for (int i = 0; i < kGroup; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  memcpy(&magnitude, &largest, 4);
  return magnitude;
}

// One group of 32 as int8: x is close to scale * q, q between -127 and 127. A group with a value that is not finite gets
// a scale that is not either, so that every output of the row is not finite; one without a value to speak of is zero.
inline void prepare_group(const float* x, int8_t* q, float* scale, float* sum) {
  constexpr float kLargest = 3.402823466e38f, kSmallest = 1e-36f;  // 127 / kSmallest is finite
  float magnitude = largest_magnitude(x);
  if (!(magnitude <= kLargest) || magnitude < kSmallest) {
    memset(q, 0, kGroup);
    *scale = *sum = magnitude <= kLargest ? 0.0f : __builtin_nanf("");
    return;
  }
  F16 inverse = set1(127.0f / magnitude);
  int32_t total = store_s8(q, mul(load(x), inverse)) + store_s8(q + 16, mul(load(x + 16), inverse));
  *scale = magnitude / 127.0f;
  *sum = *scale * static_cast<float>(total);
}

inline void prepare(Kind kind, const float* x, int64_t rows, int64_t k, uint16_t* bf16, int8_t* q, float* scale,
                    float* sum) {
  if (kind == kBF16)
    for (int64_t row = 0; row < rows; row++) prepare_bf16(x + row * k, k, bf16 + row * ((k + 1) / 2 * 2));
  if (is_quantized(kind))
    for (int64_t g = 0; g < rows * k / kGroup; g++) prepare_group(x + g * kGroup, q + g * kGroup, scale + g, sum + g);
}
