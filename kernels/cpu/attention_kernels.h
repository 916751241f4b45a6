// Attention over blocks of keys and values: decode and prefill chunks alike.
//
// Included once per level inside that level's namespace, after elementwise_kernels.h (for `exp`).
//
// A row is one head of one query. Rows go through the partitions of kPartition keys in order, with a running maximum
// (https://arxiv.org/abs/1805.02867), a strip of a few rows at a time so that each vector of the cache is used several
// times. What fixes a row's bits, whatever strip, tile or chunk it stands in:
//
// - a score is one sum over head_dim in order;
// - weights past the row's position are +0, which changes no sum, for no value in the cache is infinite or NaN (see
//   kv_kernels.h; keys may be: scores past the position are not read); partitions wholly past it scale by exactly 1;
// - a column of the result is one sum over the keys in order, and a zero of it is +0 in the end;
// - the weights are added lane by lane over the blocks of a partition, then over the lanes. In bf16 they are rounded
//   first, and the rounded ones are added: so the weights that values really get sum to one.

constexpr int kStripRows = kRowTile;
constexpr int kTileRows = 48;  // rows that a task aims at
constexpr int kFewRows = 4;   // rows with which attention waits for memory
constexpr int kMaxColumns = 4;
constexpr int kPartitionBlocks = kPartition / kBlockSize;
constexpr int kVectorBytes = 64;

// Either format of the cache is vectors of 64 bytes: a lane holds kPack elements that a word of kPack queries or
// weights meets. A block of keys is [head_dim / kPack] vectors, one of values [kBlockSize / kPack][head_dim / 16].
struct Bf16Format {
  static constexpr int kPack = 2;
  using Vector = B64;
  static Vector vector(const char* p) { return load_bytes(p); }
  static F16 dot(F16 acc, Vector vector, const float* word) {
    uint32_t pair;
    memcpy(&pair, word, sizeof pair);
    return dot_bf16(acc, vector, pair);
  }
  // e^(score - best) with a relative error below 3e-6 + 6e-8 |best|: rounding to bfloat16 hides it.
  static F16 base(float best) { return set1(-1.44269504f * best); }
  static F16 weight(F16 score, F16 base) {
    F16 x = max(set1(-150.0f), fma(score, set1(1.44269504f), base));
    F16 n = round_even(x), f = sub(x, n);
    F16 p = fma(set1(9.570006e-3f), f, set1(5.5918682e-2f));
    p = fma(p, f, set1(2.4024753e-1f));
    p = fma(p, f, set1(6.9312173e-1f));
    return scale2(fma(p, f, set1(9.999993e-1f)), n);
  }
  // Stores 16 values as 16 / kPack words and returns them as they are stored.
  static F16 put(float* words, F16 a) {
    uint16_t rounded[16];
    store_bf16(rounded, a);
    memcpy(words, rounded, sizeof rounded);
    return load_bf16(rounded);
  }
};
struct Fp32Format {
  static constexpr int kPack = 1;
  using Vector = F16;
  static Vector vector(const char* p) { return load(reinterpret_cast<const float*>(p)); }
  static F16 dot(F16 acc, Vector vector, const float* word) { return fma(vector, set1(*word), acc); }
  static F16 base(float best) { return set1(best); }
  static F16 weight(F16 score, F16 base) { return exp(sub(score, base)); }
  static F16 put(float* words, F16 a) {
    store(words, a);
    return a;
  }
};

// Vectors side by side that `rows` rows can be multiplied with in registers.
constexpr int columns_of(int rows) {
  return kAccumulators / rows >= kMaxColumns ? kMaxColumns : kAccumulators / rows >= 2 ? 2 : 1;
}

// Calls each(row, column), unrolled, so that sums in an array stay in registers.
template <int ROWS, int COLUMNS, class Each, int... I>
inline void for_places(Each each, std::integer_sequence<int, I...>) {
  (each(I / COLUMNS, I % COLUMNS), ...);
}
template <int ROWS, int COLUMNS, class Each>
inline void for_tile(Each each) {
  for_places<ROWS, COLUMNS>(each, std::make_integer_sequence<int, ROWS * COLUMNS>());
}

template <int COUNT>
using Columns = std::integral_constant<int, COUNT>;

// Rows that go through the cache together. Lanes of the F16-sized arrays are rows.
struct Strip {
  int32_t position[kStripRows];
  float best[16], total[16];
  float* queries;   // [rows][kMaxHeadDim / kPack] words: a stride that the compiler knows
  float* weighted;  // [rows][head_dim]
};

// What a partition looks like to one kv head. Places after its last block repeat that block.
struct Partition {
  int32_t first_key, blocks;
  const char* keys[kPartitionBlocks];
  const char* values[kPartitionBlocks];

  Partition(const Shape& shape, const KvLayer& kv, const Sequence& sequence, int32_t kv_head, int32_t first_key,
            int32_t last_key)
      : first_key(first_key) {
    const int64_t block_bytes = int64_t{kBlockSize} * shape.head_dim * (shape.kv_is_bf16 ? 2 : 4);
    const int32_t first_block = first_key / kBlockSize;
    blocks = std::min(kPartitionBlocks, last_key / kBlockSize - first_block + 1);
    for (int32_t b = 0; b < kPartitionBlocks; b++) {
      const int64_t block = sequence.blocks[first_block + std::min(b, blocks - 1)];
      const int64_t begin = (block * shape.kv_heads + kv_head) * block_bytes;
      keys[b] = static_cast<const char*>(kv.keys) + begin;
      values[b] = static_cast<const char*>(kv.values) + begin;
    }
  }
};

// Scores of ROWS rows and the keys of COLUMNS blocks. With few rows the cache's bytes are what takes time: then those
// that are needed next are fetched meanwhile, from `ahead`, into the second cache, which waits for more of them at a time
// than the first. (Not inlined: where this loop shares its registers with its caller, its pointers go to the stack.)
template <class Format, int ROWS, int COLUMNS>
[[gnu::noinline]] void score_blocks(const char* const* blocks, const char* const* ahead, const float* queries,
                                    int steps, float* scores) {
  F16 acc[ROWS][COLUMNS];
  for_tile<ROWS, COLUMNS>([&](int r, int c) { acc[r][c] = zero(); });
  for (int step = 0; step < steps; step++) {
    typename Format::Vector keys[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) keys[c] = Format::vector(blocks[c] + step * kVectorBytes);
    if (ROWS <= kFewRows)
      for (int c = 0; c < COLUMNS; c++) prefetch_far(ahead[c] + step * kVectorBytes);
    for_tile<ROWS, COLUMNS>([&](int r, int c) {
      acc[r][c] = Format::dot(acc[r][c], keys[c], queries + r * (kMaxHeadDim / Format::kPack) + step);
    });
  }
  for_tile<ROWS, COLUMNS>([&](int r, int c) { store(scores + r * kPartition + c * 16, acc[r][c]); });
}

// Of the values that one word of weights meets.
inline int word_bytes(const Shape& shape) { return shape.head_dim / 16 * kVectorBytes; }

// Fetches the bytes [first, last) of the blocks [begin, end).
inline void fetch(const char* const* blocks, int begin, int end, int first, int last) {
  for (int b = begin; b < end; b++)
    for (int i = first; i < last; i += kVectorBytes) prefetch_far(blocks[b] + i);
}

template <class Format, int ROWS>
inline void score(const Shape& shape, const Partition& partition, const Partition& ahead, int blocks, const Strip& strip,
                  float* scores) {
  constexpr int kColumns = columns_of(ROWS);
  const int steps = shape.head_dim / Format::kPack;
  int b = 0;
  auto score_from = [&](auto columns) {
    score_blocks<Format, ROWS, columns()>(partition.keys + b, ahead.keys + b, strip.queries, steps,
                                          scores + b * kBlockSize);
    b += columns();
  };
  while (b + kColumns <= blocks) score_from(Columns<kColumns>());
  while (b < blocks) score_from(Columns<1>());
  if (ROWS <= kFewRows) fetch(ahead.keys, b, ahead.blocks, 0, steps * kVectorBytes);
}

// The largest of a row's first `count` scores.
inline float best_score(const float* scores, int count) {
  F16 best = set1(-INFINITY);
  int i = 0;
  for (; i + 16 <= count; i += 16) best = max(best, load(scores + i));
  if (i < count) best = max(best, first_or(load(scores + i), count - i, -INFINITY));
  return max_lane(best);
}

// Weights of `blocks` blocks, zero after the first `count` keys; returns their sum.
template <class Format>
inline float weigh(const float* scores, float best, int count, int blocks, float* weights) {
  constexpr int kWords = kBlockSize / Format::kPack;
  const F16 base = Format::base(best);
  F16 total = zero();
  int b = 0;
  for (; (b + 1) * kBlockSize <= count; b++)
    total = add(total, Format::put(weights + b * kWords, Format::weight(load(scores + b * kBlockSize), base)));
  if (const int left = count - b * kBlockSize; left > 0) {
    const F16 weight = first(Format::weight(load(scores + b * kBlockSize), base), left);
    total = add(total, Format::put(weights + b * kWords, weight));
    b++;
  }
  for (; b < blocks; b++) Format::put(weights + b * kWords, zero());
  return sum(total);
}

// Scores become weights; `decay` is what the sums so far are to be multiplied with. So that memory is not idle meanwhile,
// each of a few rows fetches one word of the values ahead.
template <class Format, int ROWS>
inline void soften(const Shape& shape, const Partition& partition, const Partition& ahead, int blocks, Strip& strip,
                   const float* scores, float* weights, float* decay) {
  constexpr int kRowWords = kPartition / Format::kPack;
  float best[16] = {}, total[16] = {};
  int count[ROWS];
  for (int r = 0; r < ROWS; r++) {
    count[r] = std::min(kPartition, strip.position[r] + 1 - partition.first_key);
    best[r] = strip.best[r];
    if (const float here = best_score(scores + r * kPartition, count[r]); !(here <= best[r])) best[r] = here;
  }
  const F16 decays = exp(sub(load(strip.best), load(best)));
  for (int r = 0; r < ROWS; r++) {
    if (ROWS <= kFewRows) fetch(ahead.values, 0, blocks, r * word_bytes(shape), (r + 1) * word_bytes(shape));
    total[r] = weigh<Format>(scores + r * kPartition, best[r], count[r], blocks, weights + r * kRowWords);
  }
  store(strip.total, fma(load(strip.total), decays, load(total)));
  store(strip.best, load(best));
  store(decay, decays);
}

// weighted = weighted * decay + weights * values, of ROWS rows and COLUMNS vectors of head_dim. It ends with the last
// row's last key, so that what lies after that is met at most by the zero that fills a word.
template <class Format, int ROWS, int COLUMNS>
[[gnu::noinline]] void add_values(const Partition& partition, const Partition& ahead, const Shape& shape, int words,
                                  int column, const float* weights, const float* decay, float* weighted) {
  constexpr int kWords = kBlockSize / Format::kPack, kRowWords = kPartition / Format::kPack;
  const int head_dim = shape.head_dim, bytes = word_bytes(shape);
  F16 acc[ROWS][COLUMNS];
  auto at = [&](int r, int c) { return weighted + r * head_dim + (column + c) * 16; };
  for_tile<ROWS, COLUMNS>([&](int r, int c) { acc[r][c] = mul(load(at(r, c)), set1(decay[r])); });
  for (int b = 0; words > 0; b++, words -= kWords) {
    const char* tokens = partition.values[b] + column * kVectorBytes;
    const char* tokens_ahead = ahead.values[b] + column * kVectorBytes;
    for (int word = 0; word < std::min(words, kWords); word++, tokens += bytes, weights++) {
      typename Format::Vector values[COLUMNS];
      for (int c = 0; c < COLUMNS; c++) values[c] = Format::vector(tokens + c * kVectorBytes);
      if (ROWS <= kFewRows && word >= ROWS)
        for (int c = 0; c < COLUMNS; c++) prefetch_far(tokens_ahead + word * bytes + c * kVectorBytes);
      for_tile<ROWS, COLUMNS>(
          [&](int r, int c) { acc[r][c] = Format::dot(acc[r][c], values[c], weights + r * kRowWords); });
    }
  }
  for_tile<ROWS, COLUMNS>([&](int r, int c) { store(at(r, c), acc[r][c]); });
}

// One strip of ROWS rows through one partition.
template <class Format, int ROWS>
inline void attend_partition(const Shape& shape, const Partition& partition, const Partition& ahead, Strip& strip,
                             float* scores, float* weights) {
  constexpr int kColumns = columns_of(ROWS);
  const int keys = std::min(kPartition, strip.position[ROWS - 1] + 1 - partition.first_key);
  if (keys <= 0) return;
  const int blocks = (keys + kBlockSize - 1) / kBlockSize;
  score<Format, ROWS>(shape, partition, ahead, blocks, strip, scores);
  float decay[16];
  soften<Format, ROWS>(shape, partition, ahead, blocks, strip, scores, weights, decay);
  const int vectors = shape.head_dim / 16, words = (keys + Format::kPack - 1) / Format::kPack;
  int c = 0;
  auto add_from = [&](auto columns) {
    add_values<Format, ROWS, columns()>(partition, ahead, shape, words, c, weights, decay, strip.weighted);
    c += columns();
  };
  while (c + kColumns <= vectors) add_from(Columns<kColumns>());
  while (c < vectors) add_from(Columns<1>());
  if (ROWS <= kFewRows)
    fetch(ahead.values, blocks, ahead.blocks, 0, kBlockSize / Format::kPack * word_bytes(shape));
}

// Calls run(integral constant of rows), rows from 1 to kStripRows.
template <int ROWS = kStripRows, class Run>
inline void with_rows(int rows, Run run) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return with_rows<ROWS - 1>(rows, run);
  run(std::integral_constant<int, ROWS>());
}

inline int32_t group_of(const Shape& shape) { return shape.heads / shape.kv_heads; }
inline int32_t query_tile(const Shape& shape) { return std::max(1, kTileRows / group_of(shape)); }
inline int64_t strips_of(int64_t rows) { return (rows + kStripRows - 1) / kStripRows; }
constexpr int64_t kStripFloats = (sizeof(Strip) + kVectorBytes - 1) / kVectorBytes * kVectorBytes / sizeof(float);

// Scores and weights of a strip, then of each strip its struct, queries and sums.
inline int64_t attention_scratch(const Shape& shape) {
  const int64_t strips = strips_of(int64_t{query_tile(shape)} * group_of(shape));
  return kVectorBytes / sizeof(float) + 2 * kStripRows * kPartition +
         strips * (kStripFloats + kStripRows * (kMaxHeadDim + shape.head_dim));
}

// What a task meets first.
inline Partition first_partition(const Shape& shape, const KvLayer& kv, const AttentionTask& task) {
  const Sequence& sequence = *task.sequence;
  return Partition(shape, kv, sequence, task.kv_head, 0, sequence.start + task.query_end - 1);
}

// A tile of queries: at most query_tile(shape).
template <class Format>
struct Tile {
  const Shape& shape;
  const Sequence& sequence;
  int32_t kv_head, query_begin, query_end;
  float *scores, *weights, *strips;

  Tile(const Shape& shape, const AttentionTask& task, float* scratch)
      : shape(shape),
        sequence(*task.sequence),
        kv_head(task.kv_head),
        query_begin(task.query_begin),
        query_end(task.query_end) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(scratch);
    scores = scratch + (-at % kVectorBytes) / sizeof(float);
    weights = scores + kStripRows * kPartition;
    strips = weights + kStripRows * kPartition;
  }

  // `next`: what the thread computes after this; null where it is not known.
  void run(const KvLayer& kv, const AttentionTask* next, const float* queries, int64_t q_stride, float* out) {
    for_strips([&](Strip& strip, int first_row, auto rows) { fill(strip, first_row, rows, queries, q_stride); });
    const int32_t last = sequence.start + query_end - 1;
    Partition partition = first_partition(shape, kv, {&sequence, kv_head, query_begin, query_end});
    for (;;) {
      const int32_t next_key = partition.first_key + kPartition;
      const bool is_last = next_key > last;
      const Partition ahead = !is_last ? Partition(shape, kv, sequence, kv_head, next_key, last)
                              : next   ? first_partition(shape, kv, *next)
                                       : partition;
      for_strips([&](Strip& strip, int, auto rows) {
        attend_partition<Format, decltype(rows)::value>(shape, partition, ahead, strip, scores, weights);
      });
      if (is_last) break;
      partition = ahead;
    }
    for_strips([&](Strip& strip, int first_row, auto rows) { finish(strip, first_row, rows, out); });
  }

 private:
  template <class Each>
  void for_strips(Each each) {
    const int rows = (query_end - query_begin) * group_of(shape);
    float* at = strips;
    for (int row = 0; row < rows; row += kStripRows) {
      Strip& strip = *reinterpret_cast<Strip*>(at);
      strip.queries = at + kStripFloats;
      strip.weighted = strip.queries + kStripRows * kMaxHeadDim;
      at = strip.weighted + kStripRows * shape.head_dim;
      with_rows(std::min(kStripRows, rows - row), [&](auto strip_rows) { each(strip, row, strip_rows); });
    }
  }

  int32_t query_of(int row) const { return query_begin + row / group_of(shape); }
  int32_t head_of(int row) const { return kv_head * group_of(shape) + row % group_of(shape); }

  // Scaled queries; empty sums.
  template <int ROWS>
  void fill(Strip& strip, int first_row, std::integral_constant<int, ROWS>, const float* queries, int64_t q_stride) {
    const F16 scale = set1(1.0f / std::sqrt(static_cast<float>(shape.head_dim)));
    for (int r = 0; r < ROWS; r++) {
      strip.position[r] = sequence.start + query_of(first_row + r);
      const float* query = queries + (sequence.first_row + query_of(first_row + r)) * q_stride +
                           int64_t{head_of(first_row + r)} * shape.head_dim;
      float* words = strip.queries + r * (kMaxHeadDim / Format::kPack);
      for (int d = 0; d < shape.head_dim; d += 16) Format::put(words + d / Format::kPack, mul(load(query + d), scale));
    }
    store(strip.best, set1(-INFINITY));
    store(strip.total, zero());
    for (int i = 0; i < ROWS * shape.head_dim; i += 16) store(strip.weighted + i, zero());
  }

  template <int ROWS>
  void finish(const Strip& strip, int first_row, std::integral_constant<int, ROWS>, float* out) const {
    for (int r = 0; r < ROWS; r++) {
      const F16 inverse = set1(1.0f / strip.total[r]);
      float* to = out + (int64_t{sequence.first_row} + query_of(first_row + r)) * shape.heads * shape.head_dim +
                  int64_t{head_of(first_row + r)} * shape.head_dim;
      // Adding +0 makes -0, which zero weights may or may not have turned into +0 before, +0 for certain.
      for (int d = 0; d < shape.head_dim; d += 16)
        store(to + d, fma(load(strip.weighted + r * shape.head_dim + d), inverse, zero()));
    }
  }
};

template <class Format>
inline void attend(const Shape& shape, const KvLayer& kv, const AttentionTask* tasks, int64_t count,
                   const float* queries, int64_t q_stride, float* out, float* scratch) {
  for (int64_t i = 0; i < count; i++)
    Tile<Format>(shape, tasks[i], scratch).run(kv, i + 1 < count ? &tasks[i + 1] : nullptr, queries, q_stride, out);
}

inline void attention(const Shape& shape, const KvLayer& kv, const AttentionTask* tasks, int64_t count,
                      const float* queries, int64_t q_stride, float* out, float* scratch) {
  auto run = shape.kv_is_bf16 ? attend<Bf16Format> : attend<Fp32Format>;
  run(shape, kv, tasks, count, queries, q_stride, out, scratch);
}
