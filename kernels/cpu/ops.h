// What one instruction set offers: a table of functions, filled by each level_*.cpp and chosen once at start.
//
// Every function computes rows, or tasks, that its caller picks: threads are the caller's business (model.cpp, api.cpp).
// A row's result depends on that row alone (attention: on its own sequence and position), bit for bit: every sum runs in
// an order that shapes and positions fix. See kernels/reference.py for what each operation means.
#pragma once
#include <cstddef>
#include <cstdint>

namespace headway {

// ---- linear

enum Kind : int32_t { kF32 = 0, kBF16 = 1, kF16 = 2, kQ8_0 = 3, kQ4_0 = 4, kQ4_1 = 5, kQ4_K = 6, kQ6_K = 7 };

// A value that is multiplied as it is: the int8 form of its row has zero in its place. What is left in a row then needs a
// smaller scale: the hidden states of language models have a few inputs tens of times larger than the others.
struct Outlier {
  uint32_t input;
  float value;
};
constexpr int kOutliers = 2;  // of each row: those of the largest magnitude, of equals the first

// Activations of `rows` rows in the form that a weight kind multiplies with; made by `Ops::prepare`.
struct Activations {
  const float* x;         // [rows, k], as they are (kF32)
  const uint16_t* bf16;   // [rows, k] (kBF16)
  const int8_t* q;        // [rows, k], int8 in groups of 32 (the quantized kinds)
  const float* scale;     // [rows, k / 32]
  const float* sum;       // [rows, k / 32]: scale times the sum of the group's q
  const int32_t* minus_128;  // [rows, k / 32]: -128 times that sum, for weights that are stored 128 too large
  const int32_t* minus_32;   // [rows, k / 16]: -32 times the sum of a half group's q (kQ6_K)
  const Outlier* outliers;  // [rows, kOutliers], by input
};

struct Linear;  // linear.h: packed weights, [n, k] in blocks of 16 outputs

// ---- paged attention

constexpr int kBlockSize = 16;     // tokens of a KV block
constexpr int kPartition = 256;    // keys over which one softmax partition runs

// One layer's cache. A block of one head holds kBlockSize * head_dim elements of keys, and as many of values:
//   keys   [head_dim / 2][16 tokens][2]      (bf16)   or [head_dim][16 tokens]   (fp32)
//   values [8 token pairs][head_dim][2]      (bf16)   or [16 tokens][head_dim]   (fp32)
// laid out [block][kv_head].
struct KvLayer {
  void* keys;
  void* values;
};

struct Shape {
  int32_t heads, kv_heads, head_dim;
  int32_t kv_is_bf16;
};

constexpr int kMaxHeadDim = 256;

// Whether write_kv and attention can work on a model of this shape.
inline bool attention_supports(const Shape& shape) {
  return shape.head_dim > 0 && shape.head_dim % 16 == 0 && shape.head_dim <= kMaxHeadDim && shape.kv_heads > 0 &&
         shape.heads > 0 && shape.heads % shape.kv_heads == 0;
}

// A sequence's part of the step: rows [first_row, first_row + count) are its tokens at positions [start, start + count).
struct Sequence {
  int32_t first_row, count, start;
  const int32_t* blocks;  // its block table, long enough for start + count tokens
};

// Queries [query_begin, query_end) of a sequence, at most query_tile(shape), and all heads of one kv head.
struct AttentionTask {
  const Sequence* sequence;
  int32_t kv_head, query_begin, query_end;
};

// ---- sampling

// What chooses a row's token: services/executor/sampling.py defines it.
struct Draw {
  double temperature, top_p, min_p, uniform;
  int64_t top_k;
};

struct Candidate {
  float logit;
  int32_t id;
  double weight;
};

constexpr int64_t kSearchWidth = 512;  // logits whose maximum is kept, so that a second look passes over most

// Memory that a draw from `width` logits works in.
struct DrawRoom {
  Candidate* candidates;  // [2 * width]
  float* block_best;      // [width / kSearchWidth, rounded up]
};

struct Ops {
  const char* name;

  // Activations of one row range: fills what `kind` needs.
  void (*prepare)(Kind kind, const float* x, int64_t rows, int64_t k, uint16_t* bf16, int8_t* q, float* scale, float* sum,
                  int32_t* minus_128, int32_t* minus_32, Outlier* outliers);
  // out[row, n] for all rows and the outputs of packed blocks [block_begin, block_end) of 16.
  void (*linear)(const Linear& weights, const Activations& x, int64_t rows, float* out, int64_t block_begin,
                 int64_t block_end);
  // Rows of the packed matrix back in float: an embedding table that is also the output projection.
  void (*unpack_rows)(const Linear& weights, const int32_t* ids, int64_t count, float* out);

  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t rows, int64_t width, float* out);
  void (*add)(float* x, const float* y, int64_t count);  // x += y
  void (*silu_mul)(const float* gate_up, int64_t rows, int64_t inner, float* out);
  // Rotates split halves of each head in place. cos, sin: [head_dim / 2] of each row's position, by pointer.
  void (*rope)(float* heads_of_row, int32_t num_heads, int32_t head_dim, const float* cos, const float* sin);
  // Stores one token's keys and values [kv_heads, head_dim] at a position; offset 0 of a block clears the rest of it. What
  // is not finite there reaches the rows that see the token, and no other: see kv_kernels.h.
  void (*write_kv)(const Shape& shape, const KvLayer& kv, int32_t block, int32_t offset, const float* keys,
                   const float* values);
  // Attention of `count` tasks, one after the other: in this order the cache is read ahead.
  // queries: rows of q_stride floats, of which [heads * head_dim] are the queries; out: rows of heads * head_dim.
  // scratch: attention_scratch(shape) floats.
  void (*attention)(const Shape& shape, const KvLayer& kv, const AttentionTask* tasks, int64_t count,
                    const float* queries, int64_t q_stride, float* out, float* scratch);
  int32_t (*query_tile)(const Shape& shape);  // how many queries a task takes at most
  int64_t (*attention_scratch)(const Shape& shape);

  // Per row: the index of the largest (the smallest of equals), or -1 where a value is not finite.
  void (*argmax)(const float* rows, int64_t count, int64_t width, int32_t* out);
  // The token that is drawn from a row; -1 where a value is not finite. In a masked row none is NaN, -inf stands where no
  // token may be drawn, and -1 means that the largest is not finite.
  int32_t (*draw)(const float* row, int64_t width, bool is_masked, const Draw& draw, const DrawRoom& room);
};

extern const Ops* const kAvx512;   // null where the compiler cannot make it
extern const Ops* const kAvx2;
extern const Ops* const kPortable;

}  // namespace headway
