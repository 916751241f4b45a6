// Rows of packed weights back in float: an embedding table is often the output projection too.
//
// Included once per level inside that level's namespace, after its simd header. See linear.h for layouts.

inline float half_at(const uint8_t* p, int64_t index) {
  uint16_t both[16] = {};
  memcpy(both, p + 2 * index, 2);
  float lanes[16];
  store(lanes, load_half(both));
  return lanes[0];
}

// The byte or nibble of one output and of input i of its group.
inline int nibble_at(const uint8_t* group, int64_t lane, int i) {
  uint8_t both = group[i % 16 / 4 * 64 + lane * 4 + i % 4];
  return i < 16 ? both & 15 : both >> 4;
}
inline int byte_at(const uint8_t* group, int64_t lane, int i) { return group[i / 4 * 64 + lane * 4 + i % 4]; }
inline int six_bits_at(const uint8_t* group, int64_t lane, int i) {
  int high = group[kNibbleBytes + i / 16 * 64 + lane * 4 + i % 4] >> (i % 16 / 4 * 2) & 3;
  return nibble_at(group, lane, i) | high << 4;
}

inline void unpack_q4_0(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (; k > 0; k -= kGroup, p += kQ4_0GroupBytes, out += kGroup) {
    float scale = half_at(p + kNibbleBytes, lane);
    for (int i = 0; i < kGroup; i++) out[i] = scale * static_cast<float>(nibble_at(p, lane, i) - 8);
  }
}
inline void unpack_q4_1(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (; k > 0; k -= kGroup, p += kQ4_1GroupBytes, out += kGroup) {
    float scale = half_at(p + kNibbleBytes, lane), offset = half_at(p + kNibbleBytes + kHalves, lane);
    for (int i = 0; i < kGroup; i++) out[i] = scale * static_cast<float>(nibble_at(p, lane, i)) + offset;
  }
}
inline void unpack_q8_0(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (; k > 0; k -= kGroup, p += kQ8_0GroupBytes, out += kGroup) {
    float scale = half_at(p + 512, lane);
    for (int i = 0; i < kGroup; i++) out[i] = scale * static_cast<float>(byte_at(p, lane, i) - 128);
  }
}
inline void unpack_q4_k(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (; k > 0; k -= kSuper) {
    float scale = half_at(p, lane), minimum = half_at(p + kHalves, lane);
    p += kQ4_KHeadBytes;
    for (int g = 0; g < 8; g++, p += kQ4_KGroupBytes, out += kGroup) {
      const uint8_t* factors = p + kNibbleBytes;
      float s = scale * static_cast<float>(factors[lane]), m = minimum * static_cast<float>(factors[16 + lane]);
      for (int i = 0; i < kGroup; i++) out[i] = s * static_cast<float>(nibble_at(p, lane, i)) - m;
    }
  }
}
inline void unpack_q6_k(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (; k > 0; k -= kSuper) {
    float scale = half_at(p, lane);
    p += kQ6_KHeadBytes;
    for (int g = 0; g < 8; g++, p += kQ6_KGroupBytes, out += kGroup) {
      const int8_t* factors = reinterpret_cast<const int8_t*>(p + kNibbleBytes + 128);
      for (int i = 0; i < kGroup; i++) {
        float s = scale * static_cast<float>(factors[i / 16 * 16 + lane]);
        out[i] = s * static_cast<float>(six_bits_at(p, lane, i) - 32);
      }
    }
  }
}

inline void unpack_f32(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i++) memcpy(out + i, p + i * 64 + lane * 4, 4);
}
inline void unpack_f16(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i++) out[i] = half_at(p + i * 32, lane);
}
inline void unpack_bf16(const uint8_t* p, int64_t lane, int64_t k, float* out) {
  for (int64_t i = 0; i < k; i++) {
    uint32_t bits = 0;
    memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, p + i / 2 * 64 + lane * 4 + i % 2 * 2, 2);
    memcpy(out + i, &bits, 4);
  }
}

inline void unpack_row(const Matrix& matrix, int64_t output, float* out) {
  const Segment* segment = matrix.segments;
  while (output >= segment->first_output + segment->outputs) segment++;
  int64_t in_segment = output - segment->first_output, lane = in_segment % kBlockOutputs;
  const uint8_t* block = segment->data + in_segment / kBlockOutputs * segment->block_bytes;
  switch (segment->kind) {
    case kF32: return unpack_f32(block, lane, matrix.inputs, out);
    case kF16: return unpack_f16(block, lane, matrix.inputs, out);
    case kBF16: return unpack_bf16(block, lane, matrix.inputs, out);
    case kQ8_0: return unpack_q8_0(block, lane, matrix.inputs, out);
    case kQ4_0: return unpack_q4_0(block, lane, matrix.inputs, out);
    case kQ4_1: return unpack_q4_1(block, lane, matrix.inputs, out);
    case kQ4_K: return unpack_q4_k(block, lane, matrix.inputs, out);
    case kQ6_K: return unpack_q6_k(block, lane, matrix.inputs, out);
  }
}

// ids must be rows that there are.
inline void unpack_rows(const Linear& weights, const int32_t* ids, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i++) unpack_row(weights.matrix, ids[i], out + i * weights.matrix.inputs);
}
