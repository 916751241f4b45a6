// Products with packed weights: tiles of up to kRowTile rows by the 16 outputs of a block (see linear.h for layouts).
//
// Included once per level inside that level's namespace, after its simd header. One accumulator per row and output runs
// over the inputs from first to last: a row's result depends neither on the other rows nor on how rows make up tiles.

#if defined(__clang__)
#define HEADWAY_UNROLL _Pragma("unroll")
#else
#define HEADWAY_UNROLL _Pragma("GCC unroll 16")
#endif

// The rows of one tile: pointers to the first row, rows apart by their strides.
struct RowTile {
  const float* x;
  const uint32_t* pairs;  // bfloat16, two at a time
  const int8_t* q;
  const float* scale;
  const float* sum;
  int64_t inputs, num_pairs, groups;  // also the strides
  int64_t ahead;                      // how many bytes ahead of the weights in use to fetch

  RowTile(const Activations& all, int64_t first_row, int64_t inputs_, int64_t ahead_)
      : inputs(inputs_), num_pairs((inputs_ + 1) / 2), groups(inputs_ / kGroup), ahead(ahead_) {
    x = all.x + first_row * inputs;
    pairs = reinterpret_cast<const uint32_t*>(all.bf16) + first_row * num_pairs;
    q = all.q + first_row * inputs;
    scale = all.scale + first_row * groups;
    sum = all.sum + first_row * groups;
  }
};

inline int32_t four_bytes(const int8_t* q) {
  int32_t four;
  memcpy(&four, q, 4);
  return four;
}

inline void fetch(const uint8_t* p, int64_t ahead, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) prefetch(p + ahead + i);
}

// How a format's weights are read: by single inputs, by pairs of inputs, or by groups.
struct Singly {};
struct Paired {};
struct Grouped {};

// ---- float kinds: one input (or pair) of 16 outputs at a time

struct F32Format {
  using Reading = Singly;
  static constexpr int64_t kStepBytes = 64;
  static F16 weights(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Format {
  using Reading = Singly;
  static constexpr int64_t kStepBytes = 32;
  static F16 weights(const uint8_t* p) { return load_half(reinterpret_cast<const uint16_t*>(p)); }
};

template <class Format, int R>
inline void accumulate(Singly, const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int64_t i = 0; i < tile.inputs; i++, p += Format::kStepBytes) {
    F16 w = Format::weights(p);
    prefetch(p + tile.ahead);
    HEADWAY_UNROLL
    for (int r = 0; r < R; r++) acc[r] = fma(w, set1(tile.x[r * tile.inputs + i]), acc[r]);
  }
}

struct BF16Format {
  using Reading = Paired;
};

template <class Format, int R>
inline void accumulate(Paired, const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int64_t i = 0; i < tile.num_pairs; i++, p += 64) {
    B64 w = load_bytes(p);
    prefetch(p + tile.ahead);
    HEADWAY_UNROLL
    for (int r = 0; r < R; r++) acc[r] = dot_bf16(acc[r], w, tile.pairs[r * tile.num_pairs + i]);
  }
}

// ---- quantized kinds whose weight is scale * (unsigned byte) + offset: one group at a time

struct Group {
  B64 bytes[8];  // inputs 4c .. 4c + 3 of 16 outputs
  F16 scale, offset;
};

inline void unpack_nibbles(const uint8_t* p, B64 (&bytes)[8]) {
  for (int c = 0; c < 4; c++) {
    B64 both = load_bytes(p + 64 * c);
    bytes[c] = low_nibbles(both);
    bytes[4 + c] = high_nibbles(both);
  }
}
inline F16 halves(const uint8_t* p) { return load_half(reinterpret_cast<const uint16_t*>(p)); }

struct Q4_0Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ4_0GroupBytes, kGroups = 1;
  static constexpr bool kSmall = true;  // no byte is above 127
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = halves(p + kNibbleBytes);
    group.offset = mul(group.scale, set1(-8));
    return group;
  }
};
struct Q4_1Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ4_1GroupBytes, kGroups = 1;
  static constexpr bool kSmall = true;
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = halves(p + kNibbleBytes);
    group.offset = halves(p + kNibbleBytes + kHalves);
    return group;
  }
};
struct Q8_0Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ8_0GroupBytes, kGroups = 1;
  static constexpr bool kSmall = false;
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    for (int c = 0; c < 8; c++) group.bytes[c] = load_bytes(p + 64 * c);
    group.scale = halves(p + 512);
    group.offset = mul(group.scale, set1(-128));
    return group;
  }
};
struct Q4_KFormat {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = kQ4_KHeadBytes, kGroupBytes = kQ4_KGroupBytes, kGroups = 8;
  static constexpr bool kSmall = true;
  static Group unpack(const uint8_t* head, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = mul(halves(head), load_u8(p + kNibbleBytes));
    group.offset = mul(sub(zero(), halves(head + kHalves)), load_u8(p + kNibbleBytes + 16));
    return group;
  }
};

template <class Format, int R>
inline void multiply(const Group& group, const RowTile& tile, int64_t g, F16 (&acc)[R]) {
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) {
    const int8_t* q = tile.q + r * tile.inputs + g * kGroup;
    I16 low = izero(), high = izero();
    for (int c = 0; c < 4; c++) {
      if constexpr (Format::kSmall) {
        low = dot_u7s8(low, group.bytes[c], four_bytes(q + 4 * c));
        high = dot_u7s8(high, group.bytes[4 + c], four_bytes(q + 16 + 4 * c));
      } else {
        low = dot_u8s8(low, group.bytes[c], four_bytes(q + 4 * c));
        high = dot_u8s8(high, group.bytes[4 + c], four_bytes(q + 16 + 4 * c));
      }
    }
    int64_t at = r * tile.groups + g;
    acc[r] = fma(mul(group.scale, set1(tile.scale[at])), to_float(iadd(low, high)), acc[r]);
    acc[r] = fma(group.offset, set1(tile.sum[at]), acc[r]);
  }
}

// ---- Q6_K: signed weights, a scale for each half of a group

struct SignedGroup {
  B64 bytes[8];
  F16 scale[2];
  I16 raised_by[2];  // what dot_raised of a half is too large by
};

struct Q6_KFormat {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = kQ6_KHeadBytes, kGroupBytes = kQ6_KGroupBytes, kGroups = 8;

  template <int kHalf>
  static void unpack_half(const uint8_t* p, SignedGroup& group) {
    B64 high = load_bytes(p + kNibbleBytes + 64 * kHalf);
    B64* bytes = group.bytes + 4 * kHalf;
    bytes[0] = minus(combine(bytes[0], two_bits_up<0>(high)), 32);
    bytes[1] = minus(combine(bytes[1], two_bits_up<2>(high)), 32);
    bytes[2] = minus(combine(bytes[2], two_bits_up<4>(high)), 32);
    bytes[3] = minus(combine(bytes[3], two_bits_up<6>(high)), 32);
    constexpr int32_t kZeros = 0;  // raised, each counts its weight 128 times
    group.raised_by[kHalf] = izero();
    for (int c = 0; c < 4; c++) group.raised_by[kHalf] = dot_raised(group.raised_by[kHalf], bytes[c], kZeros);
  }
  static SignedGroup unpack(const uint8_t* head, const uint8_t* p) {
    SignedGroup group;
    unpack_nibbles(p, group.bytes);
    unpack_half<0>(p, group);
    unpack_half<1>(p, group);
    F16 scale = halves(head);
    for (int half = 0; half < 2; half++)
      group.scale[half] = mul(scale, load_s8(p + kNibbleBytes + 128 + 16 * half));
    return group;
  }
};

template <class Format, int R>
inline void multiply(const SignedGroup& group, const RowTile& tile, int64_t g, F16 (&acc)[R]) {
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) {
    const int8_t* q = tile.q + r * tile.inputs + g * kGroup;
    F16 scale = set1(tile.scale[r * tile.groups + g]);
    for (int half = 0; half < 2; half++) {
      I16 dot = izero();
      for (int c = 0; c < 4; c++) dot = dot_raised(dot, group.bytes[4 * half + c], four_bytes(q + 16 * half + 4 * c));
      acc[r] = fma(mul(group.scale[half], scale), to_float(isub(dot, group.raised_by[half])), acc[r]);
    }
  }
}

template <class Format, int R>
inline void accumulate(Grouped, const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int64_t g = 0; g < tile.groups;) {
    const uint8_t* head = p;
    p += Format::kHeadBytes;
    for (int64_t last = g + Format::kGroups; g < last; g++, p += Format::kGroupBytes) {
      fetch(p, tile.ahead, Format::kGroupBytes);
      multiply<Format>(Format::unpack(head, p), tile, g, acc);
    }
  }
}

// ---- tiles, blocks and segments

struct Place {
  const float* bias;  // of the block's outputs, or null
  float* out;         // the tile's first row, the block's first output
  int64_t stride, outputs;
};

template <class Format, int R>
inline void tile_of(const uint8_t* weights, const RowTile& tile, const Place& place) {
  F16 acc[R];
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) acc[r] = zero();
  accumulate<Format>(typename Format::Reading{}, weights, tile, acc);
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) {
    if (place.bias) acc[r] = add(acc[r], load(place.bias));
    float* out = place.out + r * place.stride;
    if (place.outputs == kBlockOutputs) store(out, acc[r]);
    else store_first(out, acc[r], place.outputs);
  }
}

template <class Format, int R = kRowTile>
inline void any_tile(int64_t rows, const uint8_t* weights, const RowTile& tile, const Place& place) {
  if (rows == R) return tile_of<Format, R>(weights, tile, place);
  if constexpr (R > 1) any_tile<Format, R - 1>(rows, weights, tile, place);
}

// Bytes between weights in use and those to fetch where one tile takes all rows: about what memory needs to answer.
constexpr int64_t kFetchAhead = 1280;

// The outputs of one block for all rows. The weights come from memory for the first tile, and from a near cache for the
// others; the last tile fetches the next block.
template <class Format>
inline void block_of(const Matrix& matrix, const Segment& segment, int64_t block, const Activations& x, int64_t rows,
                     float* out) {
  int64_t in_segment = block - segment.first_block, first_output = in_segment * kBlockOutputs;
  const uint8_t* weights = segment.data + in_segment * segment.block_bytes;
  int64_t left = segment.outputs - first_output;
  const float* bias = matrix.bias ? matrix.bias + block * kBlockOutputs : nullptr;
  int64_t tiles = (rows + kRowTile - 1) / kRowTile;
  for (int64_t t = 0; t < tiles; t++) {
    int64_t begin = rows * t / tiles, end = rows * (t + 1) / tiles;
    int64_t ahead = tiles == 1 ? kFetchAhead : t + 1 == tiles ? segment.block_bytes : 0;
    Place place{bias, out + begin * matrix.outputs + segment.first_output + first_output, matrix.outputs,
                left < kBlockOutputs ? left : kBlockOutputs};
    any_tile<Format>(end - begin, weights, RowTile(x, begin, matrix.inputs, ahead), place);
  }
}

inline void block_of_kind(const Matrix& matrix, const Segment& segment, int64_t block, const Activations& x,
                          int64_t rows, float* out) {
  switch (segment.kind) {
    case kF32: return block_of<F32Format>(matrix, segment, block, x, rows, out);
    case kF16: return block_of<F16Format>(matrix, segment, block, x, rows, out);
    case kBF16: return block_of<BF16Format>(matrix, segment, block, x, rows, out);
    case kQ8_0: return block_of<Q8_0Format>(matrix, segment, block, x, rows, out);
    case kQ4_0: return block_of<Q4_0Format>(matrix, segment, block, x, rows, out);
    case kQ4_1: return block_of<Q4_1Format>(matrix, segment, block, x, rows, out);
    case kQ4_K: return block_of<Q4_KFormat>(matrix, segment, block, x, rows, out);
    case kQ6_K: return block_of<Q6_KFormat>(matrix, segment, block, x, rows, out);
  }
}

inline const Segment& segment_of_block(const Matrix& matrix, int64_t block) {
  const Segment* segment = matrix.segments;
  while (block >= segment->first_block + segment->blocks) segment++;
  return *segment;
}

inline void linear(const Linear& weights, const Activations& x, int64_t rows, float* out, int64_t block_begin,
                   int64_t block_end) {
  for (int64_t block = block_begin; block < block_end; block++)
    block_of_kind(weights.matrix, segment_of_block(weights.matrix, block), block, x, rows, out);
}
