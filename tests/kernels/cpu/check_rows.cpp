// Runs what works on rows, the cache and attention for check.cpp, in buffers exactly as large as they must be.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "attention_tasks.h"
#include "dispatch.h"

using namespace headway;

namespace {

using Floats = std::vector<float>;

Floats wave(int64_t count) {
  Floats x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i) * 0.7f) * 3.0f;
  return x;
}

void check_elementwise() {
  for (int64_t width : {1, 15, 16, 17, 100}) {
    const int64_t rows = 3;
    Floats x = wave(rows * width), weight = wave(width), out(x.size()), gate_up = wave(2 * rows * width);
    ops().rms_norm(x.data(), weight.data(), 1e-5f, rows, width, out.data());
    ops().rms_norm(x.data(), weight.data(), 1e-5f, rows, width, x.data());
    ops().add(x.data(), out.data(), rows * width);
    ops().silu_mul(gate_up.data(), rows, width, out.data());
    gate_up[0] = NAN, gate_up[1] = -INFINITY;
    ops().silu_mul(gate_up.data(), rows, width, out.data());
    Floats heads = wave(4 * width), cos = wave(width), sin = wave(width);
    ops().rope(heads.data(), 2, static_cast<int32_t>(2 * width), cos.data(), sin.data());
  }
}

void check_logits() {
  for (int64_t width : {1, 17, 511, 513, 1100})
    for (float last : {9.0f, NAN, INFINITY}) {
      Floats rows = wave(2 * width);
      rows.back() = last;
      std::vector<int32_t> found(2);
      ops().argmax(rows.data(), 2, width, found.data());
    }
}

void check_draws() {
  for (int64_t width : {1, 17, 100, 511, 513, 1100}) {
    std::vector<Candidate> candidates(static_cast<size_t>(2 * width));
    Floats block_best(static_cast<size_t>((width + kSearchWidth - 1) / kSearchWidth));
    for (float first : {0.0f, -INFINITY, INFINITY, NAN, 3e38f})
      for (double temperature : {0.0, 1e-320, 0.8, 1e30})
        for (int64_t top_k : {0, 3, 600})
          for (double share : {1e-45, 0.5, 1.0}) {
            Floats row = wave(width);
            row[0] = first;
            const Draw draw{temperature, share, share < 1.0 ? share : 0.0, 0.999, top_k};
            for (bool is_masked : {false, true})
              ops().draw(row.data(), width, is_masked, draw, {candidates.data(), block_best.data()});
          }
  }
}

// Bytes of a cache of which only `count` tokens of two sequences are ever written; the blocks lie one after the other.
void check_attention(const Shape& shape, int32_t count) {
  const int32_t blocks = (count + kBlockSize - 1) / kBlockSize;
  const size_t bytes = size_t{kBlockSize} * shape.head_dim * shape.kv_heads * blocks * (shape.kv_is_bf16 ? 2 : 4);
  std::vector<char> keys(bytes, '\xff'), values(bytes, '\xff');
  const KvLayer kv{keys.data(), values.data()};
  std::vector<int32_t> table;
  for (int32_t block = blocks; block-- > 0;) table.push_back(block);
  const int64_t q_width = int64_t{shape.heads} * shape.head_dim, kv_width = int64_t{shape.kv_heads} * shape.head_dim;
  Floats key = wave(kv_width), queries = wave(count * q_width), out(queries.size(), NAN);
  for (int32_t at = 0; at < count; at++)
    ops().write_kv(shape, kv, table[static_cast<size_t>(at / kBlockSize)], at % kBlockSize, key.data(), key.data());
  if (count > 1) {  // one that overflows: it stays in the rows that see it, of which there is one
    Floats huge(key);
    huge.back() = INFINITY;
    const int32_t at = count - 1;
    ops().write_kv(shape, kv, table.back(), at % kBlockSize, key.data(), huge.data());
  }
  Floats scratch(static_cast<size_t>(ops().attention_scratch(shape)));
  const Sequence sequence{0, count, 0, table.data()};
  const auto tasks = attention_tasks(ops(), shape, &sequence, 1, count);
  ops().attention(shape, kv, tasks.data(), static_cast<int64_t>(tasks.size()), queries.data(), q_width, out.data(),
                  scratch.data());
  const size_t seen = out.size() - (count > 1 ? static_cast<size_t>(q_width) : 0);
  for (size_t i = 0; i < seen; i++) {
    if (std::isfinite(out[i])) continue;
    std::fprintf(stderr, "attention met what was never written, or what a later token holds\n");
    std::exit(1);
  }
}

}  // namespace

void check_rows() {
  check_elementwise();
  check_logits();
  check_draws();
  for (int32_t is_bf16 : {0, 1})
    for (int32_t count : {1, 16, 37, 260}) {
      check_attention({6, 2, 16, is_bf16}, count);
      check_attention({7, 1, 64, is_bf16}, count);
      check_attention({50, 1, 48, is_bf16}, count);
      check_attention({1, 1, 256, is_bf16}, count);
    }
}
