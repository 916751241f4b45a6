// Packing: from the row-major blocks of GGUF tensors to blocks of 16 outputs side by side (see linear.h for layouts).
//
// GGUF's own layouts are those of https://github.com/ggml-org/ggml, as gguf-py's quants.py reads them.
#include "linear.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "gguf_blocks.h"
#include "guard.h"
#include "pool.h"
#include "weight_memory.h"

namespace headway {
namespace {

// One block to be packed: `outputs` rows of raw bytes, row_bytes apart.
struct RawRows {
  const uint8_t* raw;
  int64_t row_bytes, outputs, inputs;

  const uint8_t* row(int64_t lane) const { return raw + lane * row_bytes; }
};

// Places half number `lane` of the 16 at `p`.
void put_half(uint8_t* p, int64_t lane, const uint8_t* half) { std::memcpy(p + 2 * lane, half, 2); }

// Nibble of input i of a group, where `low` holds the first 16 inputs' in its low halves.
uint8_t& nibbles_of(uint8_t* group, int64_t lane, int i) { return group[i % 16 / 4 * 64 + lane * 4 + i % 4]; }

void put_nibble(uint8_t* group, int64_t lane, int i, int value) {
  nibbles_of(group, lane, i) |= static_cast<uint8_t>(i < 16 ? value : value << 4);
}

// Q4_0 and Q4_1 store the nibbles of a group as they are wanted here, after one or two halves.
void pack_q4(const RawRows& rows, int64_t num_halves, uint8_t* out) {
  int64_t raw_group = 2 * num_halves + 16, packed_group = kNibbleBytes + kHalves * num_halves;
  for (int64_t lane = 0; lane < rows.outputs; lane++)
    for (int64_t g = 0; g < rows.inputs / kGroup; g++) {
      const uint8_t* raw = rows.row(lane) + g * raw_group;
      uint8_t* group = out + g * packed_group;
      for (int64_t h = 0; h < num_halves; h++) put_half(group + kNibbleBytes + h * kHalves, lane, raw + 2 * h);
      for (int i = 0; i < 16; i++) nibbles_of(group, lane, i) = raw[2 * num_halves + i];
    }
}

void pack_q8_0(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++)
    for (int64_t g = 0; g < rows.inputs / kGroup; g++) {
      const uint8_t* raw = rows.row(lane) + g * 34;
      uint8_t* group = out + g * kQ8_0GroupBytes;
      put_half(group + 512, lane, raw);
      for (int i = 0; i < kGroup; i++) group[i / 4 * 64 + lane * 4 + i % 4] = static_cast<uint8_t>(raw[2 + i] ^ 0x80);
    }
}

void pack_q4_k(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++) {
    uint8_t* packed = out;
    for (int64_t super = 0; super < rows.inputs / kSuper; super++) {
      Q4KBlock block(rows.row(lane) + super * Q4KBlock::kBytes);
      put_half(packed, lane, block.scale);
      put_half(packed + kHalves, lane, block.minimum);
      packed += kQ4_KHeadBytes;
      for (int g = 0; g < 8; g++, packed += kQ4_KGroupBytes) {
        for (int i = 0; i < kGroup; i++) put_nibble(packed, lane, i, block.nibble(g, i));
        packed[kNibbleBytes + lane] = block.group_scale(g);
        packed[kNibbleBytes + 16 + lane] = block.group_minimum(g);
      }
    }
  }
}

void pack_q6_k(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++) {
    uint8_t* packed = out;
    for (int64_t super = 0; super < rows.inputs / kSuper; super++) {
      Q6KBlock block(rows.row(lane) + super * Q6KBlock::kBytes);
      put_half(packed, lane, block.scale);
      packed += kQ6_KHeadBytes;
      for (int g = 0; g < 8; g++, packed += kQ6_KGroupBytes) {
        uint8_t* high = packed + kNibbleBytes;
        for (int i = 0; i < kGroup; i++) {
          int bits = block.six_bits(g, i);
          put_nibble(packed, lane, i, bits & 15);
          high[i / 16 * 64 + lane * 4 + i % 4] |= static_cast<uint8_t>(bits >> 4 << (i % 16 / 4 * 2));
        }
        for (int half = 0; half < 2; half++)
          high[128 + half * 16 + lane] = static_cast<uint8_t>(block.half_scale(2 * g + half));
      }
    }
  }
}

void pack_f16(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++)
    for (int64_t i = 0; i < rows.inputs; i++) put_half(out + i * kHalves, lane, rows.row(lane) + 2 * i);
}

void pack_bf16(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++)
    for (int64_t i = 0; i < rows.inputs; i++) std::memcpy(out + i / 2 * 64 + lane * 4 + i % 2 * 2, rows.row(lane) + 2 * i, 2);
}

void pack_f32(const RawRows& rows, uint8_t* out) {
  for (int64_t lane = 0; lane < rows.outputs; lane++)
    for (int64_t i = 0; i < rows.inputs; i++) std::memcpy(out + i * 64 + lane * 4, rows.row(lane) + 4 * i, 4);
}

// Packs a block that is zero so far.
void pack_block(Kind kind, const RawRows& rows, uint8_t* out) {
  switch (kind) {
    case kF32: return pack_f32(rows, out);
    case kBF16: return pack_bf16(rows, out);
    case kF16: return pack_f16(rows, out);
    case kQ8_0: return pack_q8_0(rows, out);
    case kQ4_0: return pack_q4(rows, 1, out);
    case kQ4_1: return pack_q4(rows, 2, out);
    case kQ4_K: return pack_q4_k(rows, out);
    case kQ6_K: return pack_q6_k(rows, out);
  }
}

// Packs as floats, or rounded to bfloat16, what a tensor of any kind holds.
void repack_block(Kind kind, Kind packed_kind, const RawRows& rows, uint8_t* out) {
  std::vector<float> values(static_cast<size_t>(rows.inputs));
  std::vector<uint16_t> rounded(static_cast<size_t>(rows.inputs));
  for (int64_t lane = 0; lane < rows.outputs; lane++) {
    dequantize(kind, rows.row(lane), rows.inputs, values.data());
    std::transform(values.begin(), values.end(), rounded.begin(), to_bf16);
    bool as_f32 = packed_kind == kF32;
    const void* row = as_f32 ? static_cast<const void*>(values.data()) : rounded.data();
    // A block of one output, whose place is a lane (four bytes in both layouts) further for each.
    RawRows one{static_cast<const uint8_t*>(row), rows.inputs * (as_f32 ? 4 : 2), 1, rows.inputs};
    pack_block(packed_kind, one, out + lane * 4);
  }
}

Kind packed_as(Kind kind, Packing packing) {
  if (packing == kAsF32) return kF32;
  if (packing == kAsBF16) return kBF16;
  return kind;
}

// A quantized row has whole records; a row of floats may have any length.
int64_t row_bytes(Kind kind, int64_t inputs) {
  auto whole = [&](int64_t of, int64_t bytes) { return inputs % of == 0 ? inputs / of * bytes : -1; };
  switch (kind) {
    case kF32: return inputs * 4;
    case kBF16:
    case kF16: return inputs * 2;
    case kQ8_0: return whole(kGroup, 34);
    case kQ4_0: return whole(kGroup, 18);
    case kQ4_1: return whole(kGroup, 20);
    case kQ4_K: return whole(kSuper, Q4KBlock::kBytes);
    case kQ6_K: return whole(kSuper, Q6KBlock::kBytes);
  }
  return -1;
}

}  // namespace

int64_t raw_bytes(Kind kind, int64_t outputs, int64_t inputs) {
  constexpr int64_t kMost = int64_t{1} << 31;  // of either extent: no product of sizes overflows
  bool possible = outputs > 0 && outputs < kMost && inputs > 0 && inputs < kMost / 8;
  int64_t row = possible ? row_bytes(kind, inputs) : -1;
  return row < 0 ? -1 : row * outputs;
}

bool is_finite(Kind kind, Packing packing, int64_t outputs, int64_t inputs, const uint8_t* raw) {
  std::atomic<bool> finite{true};
  int64_t bytes = row_bytes(kind, inputs);
  bool is_rounded = kind == kF32 && packing == kAsBF16;  // of no other kind can values grow too large
  parallel(outputs, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end && finite.load(std::memory_order_relaxed); row++) {
      const uint8_t* values = raw + row * bytes;
      if (!(is_rounded ? are_floats_finite_in_bf16(values, inputs) : is_row_finite(kind, values, bytes)))
        finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

int64_t Linear::packed_bytes() const {
  int64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.blocks * segment.block_bytes;
  return bytes;
}

void Linear::add_segment(Kind kind, Packing packing, int64_t outputs, const uint8_t* raw) {
  Kind packed = packed_as(kind, packing);
  int64_t blocks = (outputs + kBlockOutputs - 1) / kBlockOutputs, bytes = block_bytes(packed, matrix.inputs);
  int64_t raw_row = row_bytes(kind, matrix.inputs), inputs = matrix.inputs;
  std::shared_ptr<uint8_t> data = weight_memory(static_cast<size_t>(blocks * bytes));
  Shortage shortage;
  parallel(blocks, [&](int64_t begin, int64_t end) {
    shortage.note([&] {
      for (int64_t b = begin; b < end; b++) {
        int64_t first = b * kBlockOutputs;
        RawRows rows{raw + first * raw_row, raw_row, std::min(kBlockOutputs, outputs - first), inputs};
        if (packed == kind) pack_block(kind, rows, data.get() + b * bytes);
        else repack_block(kind, packed, rows, data.get() + b * bytes);
      }
    });
  });
  shortage.raise();
  need(packed);
  data_.push_back(data);
  segments_.push_back({packed, matrix.outputs, outputs, matrix.blocks, blocks, bytes, data.get()});
  matrix.segments = segments_.data();
  matrix.num_segments = static_cast<int64_t>(segments_.size());
  matrix.outputs += outputs;
  matrix.blocks += blocks;
}

// The quantized kinds take the same form of activations: one of them stands for all.
void Linear::need(Kind kind) {
  if (kind == kF32 || kind == kF16) return;
  for (Kind& prepared : prepared_kinds_) {
    if (is_quantized(prepared) && kind == kQ6_K) prepared = kind;
    if (prepared == kind || (is_quantized(prepared) && is_quantized(kind))) return;
  }
  prepared_kinds_.push_back(kind);
}

void Linear::set_bias(const float* bias) {
  bias_.assign(static_cast<size_t>(matrix.blocks * kBlockOutputs), 0.0f);
  for (const Segment& segment : segments_)
    std::copy_n(bias + segment.first_output, segment.outputs, bias_.data() + segment.first_block * kBlockOutputs);
  matrix.bias = bias_.data();
}

}  // namespace headway
