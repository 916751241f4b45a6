// The records of GGUF tensors, and their values as floats. Sizes, fields and order are GGUF's; see linear.cpp.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops.h"

namespace headway {

inline float half_to_float(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                    : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                     : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// To nearest, ties to even; NaN stays NaN.
inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// 256 inputs in eight groups: four bits each, and six bits of scale and of minimum for each group.
struct Q4KBlock {
  static constexpr int64_t kBytes = 144;
  const uint8_t *scale, *minimum, *factors, *nibbles;

  explicit Q4KBlock(const uint8_t* p) : scale(p), minimum(p + 2), factors(p + 4), nibbles(p + 16) {}

  // Groups 2j and 2j + 1 share 32 bytes.
  int nibble(int group, int i) const { return nibbles[group / 2 * 32 + i] >> (group % 2 * 4) & 15; }
  // The first four factors lie in six bits of a byte; of the others, four bits lie together and two above the first ones.
  uint8_t group_scale(int group) const {
    if (group < 4) return factors[group] & 63;
    return static_cast<uint8_t>((factors[group + 4] & 15) | (factors[group - 4] >> 6 << 4));
  }
  uint8_t group_minimum(int group) const {
    if (group < 4) return factors[group + 4] & 63;
    return static_cast<uint8_t>(factors[group + 4] >> 4 | (factors[group] >> 6 << 4));
  }
};

// 256 inputs in sixteen halves of groups: four bits and two bits each, and a signed scale for each half.
struct Q6KBlock {
  static constexpr int64_t kBytes = 210;
  const uint8_t *low, *high, *scales, *scale;

  explicit Q6KBlock(const uint8_t* p) : low(p), high(p + 128), scales(p + 192), scale(p + 208) {}

  // Four groups share 64 bytes of low bits (two groups to 32) and 32 bytes of high ones.
  int six_bits(int group, int i) const {
    int lower = low[group / 4 * 64 + group % 2 * 32 + i] >> (group % 4 / 2 * 4) & 15;
    int upper = high[group / 4 * 32 + i] >> (group % 4 * 2) & 3;
    return lower | upper << 4;
  }
  int8_t half_scale(int half) const { return static_cast<int8_t>(scales[half]); }
};

// Whether no half among `count` from `p` on, `stride` bytes apart, is an infinity or NaN.
inline bool are_halves_finite(const uint8_t* p, int64_t count, int64_t stride) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) finite &= (p[i * stride + 1] & 0x7c) != 0x7c;
  return finite;
}

// The same of floats or bfloat16, whose upper halves look alike.
inline bool are_floats_finite(const uint8_t* p, int64_t count, int64_t bytes) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t* upper = p + (i + 1) * bytes - 2;
    finite &= (upper[1] & 0x7f) != 0x7f || (upper[0] & 0x80) == 0;
  }
  return finite;
}

// The same of floats that are to be rounded to bfloat16: from halfway past its largest on, they become infinite.
inline bool are_floats_finite_in_bf16(const uint8_t* p, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    std::memcpy(&bits, p + 4 * i, 4);
    finite &= (bits & 0x7fffffff) < 0x7f7f8000;
  }
  return finite;
}

// Whether the numbers of a row, `bytes` long, are finite.
inline bool is_row_finite(Kind kind, const uint8_t* p, int64_t bytes) {
  switch (kind) {
    case kF32: return are_floats_finite(p, bytes / 4, 4);
    case kBF16: return are_floats_finite(p, bytes / 2, 2);
    case kF16: return are_halves_finite(p, bytes / 2, 2);
    case kQ8_0: return are_halves_finite(p, bytes / 34, 34);
    case kQ4_0: return are_halves_finite(p, bytes / 18, 18);
    case kQ4_1: return are_halves_finite(p, bytes / 20, 20) && are_halves_finite(p + 2, bytes / 20, 20);
    case kQ4_K: {
      int64_t blocks = bytes / Q4KBlock::kBytes;
      return are_halves_finite(p, blocks, Q4KBlock::kBytes) && are_halves_finite(p + 2, blocks, Q4KBlock::kBytes);
    }
    case kQ6_K: return are_halves_finite(Q6KBlock(p).scale, bytes / Q6KBlock::kBytes, Q6KBlock::kBytes);
  }
  return false;
}

// Values of one group of 32, or of eight of a K-quant.
inline void dequantize_q8_0(const uint8_t* p, float* out) {
  float scale = half_to_float(p);
  for (int i = 0; i < 32; i++) out[i] = scale * static_cast<float>(static_cast<int8_t>(p[2 + i]));
}
inline void dequantize_q4_0(const uint8_t* p, float* out) {
  float scale = half_to_float(p);
  for (int i = 0; i < 32; i++) out[i] = scale * static_cast<float>((p[2 + i % 16] >> i / 16 * 4 & 15) - 8);
}
inline void dequantize_q4_1(const uint8_t* p, float* out) {
  float scale = half_to_float(p), offset = half_to_float(p + 2);
  for (int i = 0; i < 32; i++) out[i] = scale * static_cast<float>(p[4 + i % 16] >> i / 16 * 4 & 15) + offset;
}
inline void dequantize_q4_k(const uint8_t* p, float* out) {
  Q4KBlock block(p);
  for (int i = 0; i < 256; i++) {
    float scale = half_to_float(block.scale) * static_cast<float>(block.group_scale(i / 32));
    float minimum = half_to_float(block.minimum) * static_cast<float>(block.group_minimum(i / 32));
    out[i] = scale * static_cast<float>(block.nibble(i / 32, i % 32)) - minimum;
  }
}
inline void dequantize_q6_k(const uint8_t* p, float* out) {
  Q6KBlock block(p);
  for (int i = 0; i < 256; i++) {
    float scale = half_to_float(block.scale) * static_cast<float>(block.half_scale(i / 16));
    out[i] = scale * static_cast<float>(block.six_bits(i / 32, i % 32) - 32);
  }
}
inline void dequantize_bf16(const uint8_t* p, float* out) {
  uint32_t bits = static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 24;
  std::memcpy(out, &bits, 4);
}

// One row of a tensor as floats.
inline void dequantize(Kind kind, const uint8_t* p, int64_t inputs, float* out) {
  auto each = [&](int64_t values, int64_t bytes, auto one) {
    for (int64_t i = 0; i < inputs; i += values) one(p + i / values * bytes, out + i);
  };
  switch (kind) {
    case kF32: std::memcpy(out, p, static_cast<size_t>(inputs) * 4); return;
    case kF16: return each(1, 2, [](const uint8_t* half, float* value) { *value = half_to_float(half); });
    case kBF16: return each(1, 2, dequantize_bf16);
    case kQ8_0: return each(32, 34, dequantize_q8_0);
    case kQ4_0: return each(32, 18, dequantize_q4_0);
    case kQ4_1: return each(32, 20, dequantize_q4_1);
    case kQ4_K: return each(256, Q4KBlock::kBytes, dequantize_q4_k);
    case kQ6_K: return each(256, Q6KBlock::kBytes, dequantize_q6_k);
  }
}

}  // namespace headway
