// Storing keys and values in their blocks. Included once per level inside that level's namespace.

// [8 token pairs][head_dim][2] of values, [head_dim / 2][16 tokens][2] of keys.
inline void write_bf16_head(uint16_t* keys, uint16_t* values, int32_t head_dim, int32_t offset, const float* key,
                            const float* value) {
  uint16_t rounded[16];
  for (int32_t d = 0; d < head_dim; d += 16) {
    store_bf16(rounded, load(key + d));
    for (int32_t i = 0; i < 16; i += 2) memcpy(keys + ((d + i) / 2 * kBlockSize + offset) * 2, rounded + i, 4);
  }
  uint16_t* pair = values + offset / 2 * head_dim * 2 + offset % 2;
  for (int32_t d = 0; d < head_dim; d += 16) {
    store_bf16(rounded, load(value + d));
    for (int32_t i = 0; i < 16; i++) pair[(d + i) * 2] = rounded[i];
  }
}

// [16 tokens][head_dim] of values, [head_dim][16 tokens] of keys.
inline void write_fp32_head(float* keys, float* values, int32_t head_dim, int32_t offset, const float* key,
                            const float* value) {
  for (int32_t d = 0; d < head_dim; d++) keys[d * kBlockSize + offset] = key[d];
  memcpy(values + offset * head_dim, value, static_cast<size_t>(head_dim) * sizeof(float));
}

// The first token of a block clears the values of those to come: attention gives them the weight zero, and what an
// earlier owner left may be a NaN, which no weight makes zero. Keys may stay: scores of later tokens are masked.
template <class Element, class WriteHead>
inline void write_heads(const Shape& shape, const KvLayer& kv, int32_t block, int32_t offset, const float* keys,
                        const float* values, WriteHead write_head) {
  const int64_t elements = int64_t{kBlockSize} * shape.head_dim;
  for (int32_t head = 0; head < shape.kv_heads; head++) {
    const int64_t begin = (int64_t{block} * shape.kv_heads + head) * elements;
    Element* of_values = static_cast<Element*>(kv.values) + begin;
    if (offset == 0) memset(of_values, 0, static_cast<size_t>(elements) * sizeof(Element));
    const int64_t from = int64_t{head} * shape.head_dim;
    write_head(static_cast<Element*>(kv.keys) + begin, of_values, shape.head_dim, offset, keys + from, values + from);
  }
}

inline void write_kv(const Shape& shape, const KvLayer& kv, int32_t block, int32_t offset, const float* keys,
                     const float* values) {
  if (shape.kv_is_bf16)
    write_heads<uint16_t>(shape, kv, block, offset, keys, values, write_bf16_head);
  else
    write_heads<float>(shape, kv, block, offset, keys, values, write_fp32_head);
}
