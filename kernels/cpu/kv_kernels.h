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

// Elements as the cache holds them.
inline F16 as_stored(const float* from, const float*) { return load(from); }
inline F16 as_stored(const float* from, const uint16_t*) {
  uint16_t rounded[16];
  store_bf16(rounded, load(from));
  return load_bf16(rounded);
}

template <class Element>
inline bool is_finite_in_cache(const float* head, int32_t head_dim) {
  F16 check = zero();  // NaN where an element is not finite
  for (int32_t d = 0; d < head_dim; d += 16)
    check = fma(as_stored(head + d, static_cast<const Element*>(nullptr)), zero(), check);
  return !std::isnan(sum(check));
}

// No value in the cache is infinite or NaN: attention gives tokens past a row's position, whose values it may read, the
// weight zero, and no weight makes such a value zero.
// - The first token of a block clears the values of those to come, for what an earlier owner left may be anything. Its
//   keys may stay: scores of later tokens are masked.
// - A token whose key or value is not finite has a key of NaN and a value of zero. So every row that sees it becomes NaN,
//   as it must, and no row before it changes by a bit.
template <class Element, class WriteHead>
inline void write_heads(const Shape& shape, const KvLayer& kv, int32_t block, int32_t offset, const float* keys,
                        const float* values, WriteHead write_head) {
  const int64_t elements = int64_t{kBlockSize} * shape.head_dim;
  for (int32_t head = 0; head < shape.kv_heads; head++) {
    const int64_t begin = (int64_t{block} * shape.kv_heads + head) * elements;
    Element* of_keys = static_cast<Element*>(kv.keys) + begin;
    Element* of_values = static_cast<Element*>(kv.values) + begin;
    if (offset == 0) memset(of_values, 0, static_cast<size_t>(elements) * sizeof(Element));
    const float* key = keys + int64_t{head} * shape.head_dim;
    const float* value = values + int64_t{head} * shape.head_dim;
    if (is_finite_in_cache<Element>(key, shape.head_dim) && is_finite_in_cache<Element>(value, shape.head_dim)) {
      write_head(of_keys, of_values, shape.head_dim, offset, key, value);
    } else {
      float nans[kMaxHeadDim], zeros[kMaxHeadDim] = {};
      std::fill_n(nans, shape.head_dim, NAN);
      write_head(of_keys, of_values, shape.head_dim, offset, nans, zeros);
    }
  }
}

inline void write_kv(const Shape& shape, const KvLayer& kv, int32_t block, int32_t offset, const float* keys,
                     const float* values) {
  if (shape.kv_is_bf16)
    write_heads<uint16_t>(shape, kv, block, offset, keys, values, write_bf16_head);
  else
    write_heads<float>(shape, kv, block, offset, keys, values, write_fp32_head);
}
