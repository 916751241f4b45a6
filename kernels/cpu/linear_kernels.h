// Products with packed weights: tiles of up to kRowTile rows by the 16 outputs of a block (see linear.h for layouts).
//
// Included once per level inside that level's namespace, after its simd header and weight_formats.h. One accumulator
// per row and output runs over the inputs from first to last: a row's result depends neither on the other rows nor on how
// rows make up tiles.

#if defined(__clang__)
#define HEADWAY_UNROLL _Pragma("unroll")
#else
#define HEADWAY_UNROLL _Pragma("GCC unroll 16")
#endif

template <class T>
inline const T* from_row(const T* all, int64_t offset) {
  return all ? all + offset : nullptr;  // a form that no segment needs is not there
}

// The rows of one tile: pointers to the first row, rows apart by their strides.
struct RowTile {
  const float* x;
  const uint32_t* pairs;  // bfloat16, two at a time
  const int8_t* q;
  const float* scale;
  const float* sum;
  const int32_t* minus_128;
  const int32_t* minus_32;
  const Outlier* outliers;
  int64_t inputs, num_pairs, groups;  // also the strides
  int64_t ahead;                      // how many bytes ahead of the weights in use to fetch

  RowTile(const Activations& all, int64_t first_row, int64_t inputs_, int64_t ahead_)
      : inputs(inputs_), num_pairs((inputs_ + 1) / 2), groups(inputs_ / kGroup), ahead(ahead_) {
    x = from_row(all.x, first_row * inputs);
    pairs = reinterpret_cast<const uint32_t*>(from_row(all.bf16, first_row * num_pairs * 2));
    q = from_row(all.q, first_row * inputs);
    scale = from_row(all.scale, first_row * groups);
    sum = from_row(all.sum, first_row * groups);
    minus_128 = from_row(all.minus_128, first_row * groups);
    minus_32 = from_row(all.minus_32, first_row * groups * 2);
    outliers = from_row(all.outliers, first_row * kOutliers);
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

// ---- sums over the inputs: one input, one pair of inputs or one group at a time

template <class Format, int R>
inline void accumulate(Singly, const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int64_t i = 0; i < tile.inputs; i++, p += Format::kStepBytes) {
    F16 w = Format::weights(p);
    prefetch(p + tile.ahead);
    HEADWAY_UNROLL
    for (int r = 0; r < R; r++) acc[r] = fma(w, set1(tile.x[r * tile.inputs + i]), acc[r]);
  }
}

template <class Format, int R>
inline void accumulate(Paired, const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int64_t i = 0; i < tile.num_pairs; i++, p += 64) {
    B64 w = load_bytes(p);
    prefetch(p + tile.ahead);
    HEADWAY_UNROLL
    for (int r = 0; r < R; r++) acc[r] = dot_bf16(acc[r], w, tile.pairs[r * tile.num_pairs + i]);
  }
}

template <class Format, int R>
inline void multiply(const Group& group, const RowTile& tile, int64_t g, F16 (&acc)[R]) {
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) {
    const int8_t* q = tile.q + r * tile.inputs + g * kGroup;
    const int64_t at = r * tile.groups + g;
    // What all weights are raised by is taken off in whole numbers, where it costs nothing.
    I16 low = Format::kRaised ? iset1(tile.minus_128[at]) : izero(), high = izero();
    for (int c = 0; c < 4; c++) {
      if constexpr (Format::kSmall) {
        low = dot_u7s8(low, group.bytes[c], four_bytes(q + 4 * c));
        high = dot_u7s8(high, group.bytes[4 + c], four_bytes(q + 16 + 4 * c));
      } else {
        low = dot_u8s8(low, group.bytes[c], four_bytes(q + 4 * c));
        high = dot_u8s8(high, group.bytes[4 + c], four_bytes(q + 16 + 4 * c));
      }
    }
    acc[r] = fma(mul(group.scale, set1(tile.scale[at])), to_float(iadd(low, high)), acc[r]);
    if (!Format::kRaised) acc[r] = fma(group.offset, set1(tile.sum[at]), acc[r]);
  }
}

template <class Format, int R>
inline void multiply(const HalvedGroup& group, const RowTile& tile, int64_t g, F16 (&acc)[R]) {
  HEADWAY_UNROLL
  for (int r = 0; r < R; r++) {
    const int8_t* q = tile.q + r * tile.inputs + g * kGroup;
    const int64_t at = r * tile.groups + g;
    I16 low = iset1(tile.minus_32[2 * at]), high = iset1(tile.minus_32[2 * at + 1]);
    for (int c = 0; c < 4; c++) {
      low = dot_u7s8(low, group.bytes[c], four_bytes(q + 4 * c));
      high = dot_u7s8(high, group.bytes[4 + c], four_bytes(q + 16 + 4 * c));
    }
    F16 both = fma(group.scale[1], to_float(high), mul(group.scale[0], to_float(low)));
    acc[r] = fma(both, set1(tile.scale[at]), acc[r]);
  }
}

// The weights of one input, of 16 outputs.
template <class Format>
inline F16 weights_of(const uint8_t* p, uint32_t input) {
  constexpr size_t kRunBytes = Format::kHeadBytes + Format::kGroups * Format::kGroupBytes;
  uint32_t g = input / unsigned{kGroup};
  const uint8_t* head = p + g / unsigned{Format::kGroups} * kRunBytes;
  const uint8_t* group = head + Format::kHeadBytes + g % unsigned{Format::kGroups} * size_t{Format::kGroupBytes};
  return Format::input(Format::unpack(head, group), group, input % unsigned{kGroup});
}

// What the int8 form of the rows leaves out; after the groups, so in an order that the row alone fixes. The rows of a
// model mostly have the same outliers: one look serves them all.
template <class Format, int R>
inline void add_outliers(const uint8_t* p, const RowTile& tile, F16 (&acc)[R]) {
  for (int i = 0; i < kOutliers; i++) {
    uint32_t input = tile.outliers[i].input;
    F16 weights = weights_of<Format>(p, input);
    HEADWAY_UNROLL
    for (int r = 0; r < R; r++) {
      const Outlier& outlier = tile.outliers[r * kOutliers + i];
      if (outlier.input != input) weights = weights_of<Format>(p, input = outlier.input);
      acc[r] = fma(weights, set1(outlier.value), acc[r]);
    }
  }
}

template <class Format, int R>
inline void accumulate(Grouped, const uint8_t* weights, const RowTile& tile, F16 (&acc)[R]) {
  const uint8_t* p = weights;
  for (int64_t g = 0; g < tile.groups;) {
    const uint8_t* head = p;
    p += Format::kHeadBytes;
    for (int64_t last = g + Format::kGroups; g < last; g++, p += Format::kGroupBytes) {
      fetch(p, tile.ahead, Format::kGroupBytes);
      multiply<Format>(Format::unpack(head, p), tile, g, acc);
    }
  }
  add_outliers<Format>(weights, tile, acc);
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
