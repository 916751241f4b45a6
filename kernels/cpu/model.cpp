// The forward pass. Threads share work by rows, by output blocks, or by attention tasks; no share changes a row's bits.
#include "model.h"

#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "pool.h"
#include "prepared_rows.h"

namespace headway {
namespace {

// Rows that one thread takes at least: below this, handing them over costs more than it saves.
constexpr int64_t kRowsPerTask = 4;

// Rows [begin, end) of the step, whose keys and values go to one block. One thread writes a block: the first of its tokens
// clears what lies behind.
struct BlockRows {
  int64_t begin, end;
  int32_t block;
};

std::vector<BlockRows> rows_by_block(const Batch& batch) {
  std::vector<BlockRows> groups;
  for (int32_t i = 0; i < batch.num_sequences; i++) {
    const Sequence& sequence = batch.sequences[i];
    for (int32_t j = 0; j < sequence.count;) {
      int32_t position = sequence.start + j;
      int32_t count = std::min(kBlockSize - position % kBlockSize, sequence.count - j);
      int64_t row = sequence.first_row + j;
      groups.push_back({row, row + count, sequence.blocks[position / kBlockSize]});
      j += count;
    }
  }
  return groups;
}

struct AttentionTask {
  int32_t sequence, kv_head, query_begin, query_end;
};

template <class F>
void parallel_rows(int64_t rows, F each) {
  parallel((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kRowsPerTask; row < std::min(rows, end * kRowsPerTask); row++) each(row);
  });
}

void multiply(const Linear& weights, const Activations& x, int64_t rows, float* out) {
  parallel(weights.num_blocks(), [&](int64_t begin, int64_t end) { ops().linear(weights, x, rows, out, begin, end); });
}

std::vector<AttentionTask> attention_tasks(const Shape& shape, const Batch& batch) {
  std::vector<AttentionTask> tasks;
  int32_t tile = ops().query_tile(shape);
  for (int32_t s = 0; s < batch.num_sequences; s++)
    for (int32_t begin = 0; begin < batch.sequences[s].count; begin += tile)
      for (int32_t head = 0; head < shape.kv_heads; head++)
        tasks.push_back({s, head, begin, std::min(begin + tile, batch.sequences[s].count)});
  return tasks;
}

// Scratch of one step, kept between steps: its sizes grow with the largest batch seen.
struct Scratch {
  std::vector<float> x, normed, qkv, attended, gate_up, gated, branch;
  PreparedRows prepared;

  void resize(const ModelConfig& c, int64_t rows) {
    int64_t q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
    x.resize(rows * c.hidden);
    normed.resize(rows * c.hidden);
    branch.resize(rows * c.hidden);
    qkv.resize(rows * (q + 2 * kv));
    attended.resize(rows * q);
    gate_up.resize(rows * 2 * c.inner);
    gated.resize(rows * c.inner);
  }
};

class Step {
 public:
  Step(const Model& model, const Batch& batch, const KvCache& kv, Scratch& scratch)
      : model_(model), c_(model.config), batch_(batch), kv_(kv), s_(scratch), shape_(model.shape()),
        rows_(batch.num_rows), q_width_(int64_t{c_.heads} * c_.head_dim),
        kv_width_(int64_t{c_.kv_heads} * c_.head_dim), qkv_width_(q_width_ + 2 * kv_width_) {
    s_.resize(c_, rows_);
    tasks_ = attention_tasks(shape_, batch);
    groups_ = rows_by_block(batch);
  }

  void run(float* hidden) {
    ops().unpack_rows(*model_.embedding, batch_.token_ids, rows_, s_.x.data());
    norm(model_.layers[0].attn_norm, *model_.layers[0].qkv);
    for (size_t i = 0; i < model_.layers.size(); i++) {
      const Layer& layer = model_.layers[i];
      bool last = i + 1 == model_.layers.size();
      attend(layer, KvLayer{kv_.keys + i * kv_.layer_bytes, kv_.values + i * kv_.layer_bytes});
      if (last) keep_wanted_rows();
      project(layer);
      add_and_norm(layer.mlp_norm, *layer.gate_up);
      gate(layer);
      if (!last) add_and_norm(model_.layers[i + 1].attn_norm, *model_.layers[i + 1].qkv);
    }
    parallel_rows(rows_, [&](int64_t row) { add_branch(row), norm_row(model_.final_norm, row, hidden + row * c_.hidden); });
  }

 private:
  // x, normed, becomes the input of `next`.
  void norm(const std::vector<float>& weight, const Linear& next) {
    s_.prepared.resize(next, rows_);
    parallel_rows(rows_, [&](int64_t row) { norm_and_prepare(weight, next, row); });
  }

  // The same of x + branch, which x becomes.
  void add_and_norm(const std::vector<float>& weight, const Linear& next) {
    s_.prepared.resize(next, rows_);
    parallel_rows(rows_, [&](int64_t row) { add_branch(row), norm_and_prepare(weight, next, row); });
  }

  void add_branch(int64_t row) { ops().add(&s_.x[row * c_.hidden], &s_.branch[row * c_.hidden], c_.hidden); }

  void norm_row(const std::vector<float>& weight, int64_t row, float* out) {
    ops().rms_norm(&s_.x[row * c_.hidden], weight.data(), c_.norm_eps, 1, c_.hidden, out);
  }

  void norm_and_prepare(const std::vector<float>& weight, const Linear& next, int64_t row) {
    float* out = &s_.normed[row * c_.hidden];
    norm_row(weight, row, out);
    s_.prepared.prepare(next, out, row, 1);
  }

  // Queries, keys and values, rotation, KV write; then attention into s_.attended.
  void attend(const Layer& layer, const KvLayer& kv) {
    multiply(*layer.qkv, s_.prepared.view(s_.normed.data()), rows_, s_.qkv.data());
    parallel(static_cast<int64_t>(groups_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        for (int64_t row = groups_[i].begin; row < groups_[i].end; row++) place(layer, kv, groups_[i].block, row);
    });
    parallel(static_cast<int64_t>(tasks_.size()), [&](int64_t begin, int64_t end) {
      static thread_local std::vector<float> scratch;
      scratch.resize(ops().attention_scratch(shape_));
      for (int64_t i = begin; i < end; i++) {
        const AttentionTask& task = tasks_[i];
        ops().attention(shape_, kv, batch_.sequences[task.sequence], task.kv_head, task.query_begin, task.query_end,
                        s_.qkv.data(), qkv_width_, s_.attended.data(), scratch.data());
      }
    });
  }

  void place(const Layer& layer, const KvLayer& kv, int32_t block, int64_t row) {
    float* query = &s_.qkv[row * qkv_width_];
    float* key = query + q_width_;
    if (!layer.q_norm.empty()) {
      ops().rms_norm(query, layer.q_norm.data(), c_.norm_eps, c_.heads, c_.head_dim, query);
      ops().rms_norm(key, layer.k_norm.data(), c_.norm_eps, c_.kv_heads, c_.head_dim, key);
    }
    int32_t position = batch_.positions[row];
    const float* cos = &model_.cos[int64_t{position} * c_.head_dim / 2];
    const float* sin = &model_.sin[int64_t{position} * c_.head_dim / 2];
    ops().rope(query, c_.heads + c_.kv_heads, c_.head_dim, cos, sin);
    ops().write_kv(shape_, kv, block, position % kBlockSize, key, key + kv_width_);
  }

  void project(const Layer& layer) {
    s_.prepared.resize(*layer.o, rows_);
    parallel_rows(rows_, [&](int64_t row) { s_.prepared.prepare(*layer.o, &s_.attended[row * q_width_], row, 1); });
    multiply(*layer.o, s_.prepared.view(s_.attended.data()), rows_, s_.branch.data());
  }

  void gate(const Layer& layer) {
    multiply(*layer.gate_up, s_.prepared.view(s_.normed.data()), rows_, s_.gate_up.data());
    s_.prepared.resize(*layer.down, rows_);
    parallel_rows(rows_, [&](int64_t row) {
      float* gated = &s_.gated[row * c_.inner];
      ops().silu_mul(&s_.gate_up[row * 2 * c_.inner], 1, c_.inner, gated);
      s_.prepared.prepare(*layer.down, gated, row, 1);
    });
    multiply(*layer.down, s_.prepared.view(s_.gated.data()), rows_, s_.branch.data());
  }

  // After the last attention nobody reads the other rows.
  void keep_wanted_rows() {
    for (int64_t i = 0; i < batch_.num_wanted; i++) {
      int64_t row = batch_.wanted_rows[i];
      std::memmove(&s_.x[i * c_.hidden], &s_.x[row * c_.hidden], c_.hidden * sizeof(float));
      std::memmove(&s_.attended[i * q_width_], &s_.attended[row * q_width_], q_width_ * sizeof(float));
    }
    rows_ = batch_.num_wanted;
  }

  const Model& model_;
  const ModelConfig& c_;
  const Batch& batch_;
  const KvCache& kv_;
  Scratch& s_;
  Shape shape_;
  int64_t rows_, q_width_, kv_width_, qkv_width_;
  std::vector<AttentionTask> tasks_;
  std::vector<BlockRows> groups_;
};

}  // namespace

bool Model::is_complete() const {
  if (!embedding || !lm_head || final_norm.empty() || cos.empty() || sin.empty()) return false;
  return std::all_of(layers.begin(), layers.end(), [&](const Layer& layer) {
    return layer.qkv && layer.o && layer.gate_up && layer.down && !layer.attn_norm.empty() && !layer.mlp_norm.empty() &&
           layer.q_norm.empty() == layer.k_norm.empty();
  });
}

void forward(const Model& model, const Batch& batch, const KvCache& kv, float* hidden) {
  static thread_local Scratch scratch;
  Step(model, batch, kv, scratch).run(hidden);
}

void logits(const Model& model, const float* hidden, int64_t rows, float* out) {
  static thread_local PreparedRows of_this_thread;
  PreparedRows& prepared = of_this_thread;  // in a task, the name of a thread-local means the worker's own
  int64_t width = model.config.hidden;
  prepared.resize(*model.lm_head, rows);
  parallel_rows(rows, [&](int64_t row) { prepared.prepare(*model.lm_head, hidden + row * width, row, 1); });
  multiply(*model.lm_head, prepared.view(hidden), rows, out);
}

}  // namespace headway
