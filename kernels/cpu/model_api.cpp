// The C ABI of a model: see kernels/cpu/model.py, which is its only caller and checks what it passes.
//
// Whatever returns int gives one of Result, but for headway_model_is_complete.
#include <memory>

#include "api.h"
#include "dispatch.h"
#include "guard.h"
#include "model.h"
#include "pool.h"

using headway::Batch;
using headway::guarded;
using headway::kDone;
using headway::kRefused;
using headway::KvCache;
using headway::Layer;
using headway::Linear;
using headway::Model;
using headway::ModelConfig;

namespace {

enum LinearRole : int32_t { kQkv, kO, kGateUp, kDown, kEmbedding, kHead };
enum VectorRole : int32_t { kAttnNorm, kMlpNorm, kQNorm, kKNorm, kFinalNorm, kCos, kSin };

// What a linear must look like in its role; zero where the role has none.
struct Extent {
  int64_t n, k;
};

Extent extent(const ModelConfig& c, int32_t role) {
  int64_t q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
  switch (role) {
    case kQkv: return {q + 2 * kv, c.hidden};
    case kO: return {c.hidden, q};
    case kGateUp: return {2 * int64_t{c.inner}, c.hidden};
    case kDown: return {c.hidden, c.inner};
    case kEmbedding:
    case kHead: return {c.vocab, c.hidden};
    default: return {0, 0};
  }
}

int64_t vector_length(const ModelConfig& c, int32_t role) {
  switch (role) {
    case kAttnNorm:
    case kMlpNorm:
    case kFinalNorm: return c.hidden;
    case kQNorm:
    case kKNorm: return c.head_dim;
    case kCos:
    case kSin: return int64_t{c.context} * c.head_dim / 2;
    default: return -1;
  }
}

const Linear** linear_place(Model& model, int32_t layer, int32_t role) {
  if (role == kEmbedding) return &model.embedding;
  if (role == kHead) return &model.lm_head;
  if (layer < 0 || layer >= model.config.num_layers) return nullptr;
  Layer& at = model.layers[layer];
  const Linear** places[] = {&at.qkv, &at.o, &at.gate_up, &at.down};
  return role >= kQkv && role <= kDown ? places[role] : nullptr;
}

std::vector<float>* vector_place(Model& model, int32_t layer, int32_t role) {
  if (role == kFinalNorm) return &model.final_norm;
  if (role == kCos) return &model.cos;
  if (role == kSin) return &model.sin;
  if (layer < 0 || layer >= model.config.num_layers) return nullptr;
  Layer& at = model.layers[layer];
  std::vector<float>* places[] = {&at.attn_norm, &at.mlp_norm, &at.q_norm, &at.k_norm};
  return role >= kAttnNorm && role <= kKNorm ? places[role] : nullptr;
}

}  // namespace

// Null where there is no memory.
HEADWAY_API Model* headway_model_create(const ModelConfig* config) {
  std::unique_ptr<Model> model;
  const int code = guarded([&] {
    model = std::make_unique<Model>();
    model->config = *config;
    model->layers.resize(config->num_layers);
    return kDone;
  });
  return code == kDone ? model.release() : nullptr;
}

HEADWAY_API void headway_model_free(Model* model) { delete model; }

// The linear stays its caller's, who frees it after the model.
HEADWAY_API int headway_model_set_linear(Model* model, int32_t layer, int32_t role, const Linear* linear) {
  const Linear** place = linear_place(*model, layer, role);
  Extent wanted = extent(model->config, role);
  if (!place || linear->n() != wanted.n || linear->k() != wanted.k) return kRefused;
  *place = linear;
  return kDone;
}

HEADWAY_API int headway_model_set_vector(Model* model, int32_t layer, int32_t role, const float* values,
                                         int64_t length) {
  std::vector<float>* place = vector_place(*model, layer, role);
  if (!place || length != vector_length(model->config, role)) return kRefused;
  return guarded([&] {
    place->assign(values, values + length);
    return kDone;
  });
}

HEADWAY_API int headway_model_is_complete(const Model* model) { return model->is_complete(); }

// `alone`: whether the calling thread does it all.
HEADWAY_API int headway_model_forward(const Model* model, const Batch* batch, const KvCache* kv, float* hidden,
                                      int32_t alone) {
  return guarded([&] {
    const headway::Alone on_this_thread(alone);
    headway::forward(*model, *batch, *kv, hidden);
    return kDone;
  });
}

HEADWAY_API int headway_model_logits(const Model* model, const float* hidden, int64_t rows, float* out,
                                     int32_t alone) {
  return guarded([&] {
    const headway::Alone on_this_thread(alone);
    headway::logits(*model, hidden, rows, out);
    return kDone;
  });
}

// Id i of `out` is the argmax of row rows[i] of logits [..., width]: see Ops::argmax.
HEADWAY_API int headway_argmax(const float* logits, int64_t width, const int32_t* rows, int64_t count, int32_t* out) {
  return guarded([&] {
    headway::parallel(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) headway::ops().argmax(logits + rows[i] * width, 1, width, out + i);
    });
    return kDone;
  });
}
