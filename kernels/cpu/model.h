// A decoder of the Llama family over packed weights, and its forward pass: one call a step.
#pragma once
#include <cstdint>
#include <vector>

#include "linear.h"
#include "ops.h"

namespace headway {

struct ModelConfig {
  int32_t num_layers, hidden, inner, heads, kv_heads, head_dim, vocab, context;
  int32_t kv_is_bf16;
  float norm_eps;
};

struct Layer {
  const Linear* qkv = nullptr;
  const Linear* o = nullptr;
  const Linear* gate_up = nullptr;
  const Linear* down = nullptr;
  std::vector<float> attn_norm, mlp_norm, q_norm, k_norm;  // the last two are empty without QK norm
};

// One step: rows are the tokens of its sequences, one sequence after the other.
struct Batch {
  int32_t num_rows, num_sequences, num_wanted;
  const int32_t* token_ids;    // [num_rows]
  const int32_t* positions;    // [num_rows]
  const Sequence* sequences;   // [num_sequences]
  const int32_t* wanted_rows;  // [num_wanted], rising: rows whose last hidden state is asked for
};

// Keys and values of all layers: layer i begins at i * layer_bytes.
struct KvCache {
  char* keys;
  char* values;
  int64_t layer_bytes;
};

struct Model {
  ModelConfig config;
  const Linear* embedding = nullptr;
  const Linear* lm_head = nullptr;
  std::vector<Layer> layers;
  std::vector<float> final_norm;
  std::vector<float> cos, sin;  // [context, head_dim / 2]

  bool is_complete() const;
  Shape shape() const { return {config.heads, config.kv_heads, config.head_dim, config.kv_is_bf16}; }
};

// Fills hidden [num_wanted, hidden] with the wanted rows after the last norm; stores keys and values of all rows.
void forward(const Model& model, const Batch& batch, const KvCache& kv, float* hidden);

// logits [rows, vocab] of hidden [rows, hidden].
void logits(const Model& model, const float* hidden, int64_t rows, float* out);

}  // namespace headway
