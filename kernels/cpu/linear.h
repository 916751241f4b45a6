// The packed weights of one projection, [outputs, inputs]: segments of one kind each, in blocks of 16 outputs.
//
// A block holds its 16 outputs side by side, so that a vector of 16 lanes is one value of each. Outputs that fill up a
// segment's last block are zero. Layouts, per block of 16 outputs; a group is 32 inputs:
//
//   F32    [inputs][16] float
//   F16    [inputs][16] half
//   BF16   [inputs / 2, rounded up][16][2] bfloat16
//   Q4_0   per group: nibbles[256], scale[16] half                       weight = scale * (nibble - 8)
//   Q4_1   per group: nibbles[256], scale[16] half, offset[16] half      weight = scale * nibble + offset
//   Q8_0   per group: bytes[512], scale[16] half                         weight = scale * (byte - 128)
//   Q4_K   per 256:   scale[16] half, minimum[16] half, then per group: nibbles[256], s[16], m[16] bytes
//                                                                        weight = scale * s * nibble - minimum * m
//   Q6_K   per 256:   scale[16] half, then per group: nibbles[256], high[128], s[2][16] signed bytes
//                                                                        weight = scale * s * (6 bits - 32)
//
// nibbles is [4][16][4]: at [c][output][j] input 4c + j of the group in the low half and input 16 + 4c + j in the high.
// bytes is [8][16][4]: at [c][output][j] input 4c + j. high is [2][16][4]: at [h][output][j] the upper two bits of
// inputs 16h + 4i + j for i < 4, at bit 2i.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops.h"

namespace headway {

constexpr int64_t kBlockOutputs = 16;
constexpr int64_t kGroup = 32;   // inputs that share a scale, of weights and of activations
constexpr int64_t kHalfGroup = kGroup / 2;
constexpr int64_t kSuper = 256;  // inputs of a K-quant's record

constexpr int64_t kNibbleBytes = 256;  // of a group in a block
constexpr int64_t kHalves = 32;        // bytes of 16 halves
constexpr int64_t kQ4_0GroupBytes = kNibbleBytes + kHalves;
constexpr int64_t kQ4_1GroupBytes = kNibbleBytes + 2 * kHalves;
constexpr int64_t kQ8_0GroupBytes = 512 + kHalves;
constexpr int64_t kQ4_KHeadBytes = 2 * kHalves, kQ4_KGroupBytes = kNibbleBytes + 32;
constexpr int64_t kQ6_KHeadBytes = kHalves, kQ6_KGroupBytes = kNibbleBytes + 128 + 32;

constexpr bool is_quantized(Kind kind) { return kind >= kQ8_0; }

// Bytes of one block of 16 outputs.
constexpr int64_t block_bytes(Kind kind, int64_t inputs) {
  switch (kind) {
    case kF32: return inputs * 64;
    case kF16: return inputs * 32;
    case kBF16: return (inputs + 1) / 2 * 64;
    case kQ8_0: return inputs / kGroup * kQ8_0GroupBytes;
    case kQ4_0: return inputs / kGroup * kQ4_0GroupBytes;
    case kQ4_1: return inputs / kGroup * kQ4_1GroupBytes;
    case kQ4_K: return inputs / kSuper * (kQ4_KHeadBytes + 8 * kQ4_KGroupBytes);
    case kQ6_K: return inputs / kSuper * (kQ6_KHeadBytes + 8 * kQ6_KGroupBytes);
  }
  return 0;
}

struct Segment {
  Kind kind;
  int64_t first_output, outputs;
  int64_t first_block, blocks;
  int64_t block_bytes;
  const uint8_t* data;
};

// What the kernels read: plain data, for code compiled for one level must share no inline function with other code.
struct Matrix {
  int64_t inputs = 0, outputs = 0, blocks = 0;
  const Segment* segments = nullptr;
  int64_t num_segments = 0;
  const float* bias = nullptr;  // [blocks * 16], or null
};

// How a segment is to be kept.
enum Packing : int32_t { kOwn = 0, kAsF32 = 1, kAsBF16 = 2 };

// Bytes of a GGUF tensor [outputs, inputs] of this kind; -1 where no such tensor can be.
int64_t raw_bytes(Kind kind, int64_t outputs, int64_t inputs);

// Whether all numbers of a GGUF tensor are finite, in the file and packed: its values, or the scales of its quantized ones.
bool is_finite(Kind kind, Packing packing, int64_t outputs, int64_t inputs, const uint8_t* raw);

struct Linear {
  Matrix matrix;

  explicit Linear(int64_t inputs) { matrix.inputs = inputs; }
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  int64_t n() const { return matrix.outputs; }
  int64_t k() const { return matrix.inputs; }
  int64_t num_blocks() const { return matrix.blocks; }
  // Kinds whose form of the activations is needed: at most {kBF16, one quantized kind}; none for all-F32. Among quantized
  // kinds it is kQ6_K if any is, whose form serves all.
  const std::vector<Kind>& prepared_kinds() const { return prepared_kinds_; }
  int64_t packed_bytes() const;

  // Appends outputs from a GGUF tensor's bytes, raw_bytes(kind, outputs, k()) of them.
  void add_segment(Kind kind, Packing packing, int64_t outputs, const uint8_t* raw);
  void set_bias(const float* bias);  // [n()]

 private:
  void need(Kind kind);

  std::vector<Segment> segments_;
  std::vector<std::shared_ptr<uint8_t>> data_;
  std::vector<float> bias_;
  std::vector<Kind> prepared_kinds_;
};

}  // namespace headway
