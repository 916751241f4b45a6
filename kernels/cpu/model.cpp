// The forward pass. Threads share work by rows, by output blocks (see part.h), or by attention tasks; no share changes a
// row's bits.
#include "model.h"

#include <algorithm>
#include <cstring>

#include "attention_tasks.h"
#include "dispatch.h"
#include "part.h"
#include "pool.h"
#include "prepared_rows.h"

namespace headway {
namespace {

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

// What one thread's part of the rows is between two operations.
struct Workspace {
  std::vector<float> normed, gate_up, gated, branch;
  std::vector<float> attention;
  PreparedRows prepared;
};

void grow(std::vector<float>& values, int64_t size) {
  if (static_cast<int64_t>(values.size()) < size) values.resize(size);
}

// Scratch of one step, kept between steps: its sizes grow with the largest batch seen. All is made before the threads
// begin, for a task must not fail.
struct Scratch {
  std::vector<float> x, qkv, attended;
  std::vector<Workspace> workspaces;  // of each thread

  void resize(const Model& model, int64_t rows, int64_t rows_of_part) {
    const ModelConfig& c = model.config;
    int64_t q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
    grow(x, rows * c.hidden);
    grow(qkv, rows * (q + 2 * kv));
    grow(attended, rows * q);
    if (static_cast<int>(workspaces.size()) < threads()) workspaces.resize(threads());
    for (Workspace& workspace : workspaces) {
      grow(workspace.normed, rows_of_part * c.hidden);
      grow(workspace.gate_up, rows_of_part * 2 * c.inner);
      grow(workspace.gated, rows_of_part * c.inner);
      grow(workspace.branch, rows_of_part * c.hidden);
      grow(workspace.attention, ops().attention_scratch(model.shape()));
      for (const Layer& layer : model.layers)
        for (const Linear* linear : {layer.qkv, layer.o, layer.gate_up, layer.down})
          workspace.prepared.resize(*linear, rows_of_part);
    }
  }
};

class Step {
 public:
  Step(const Model& model, const Batch& batch, const KvCache& kv, Scratch& scratch)
      : model_(model), c_(model.config), batch_(batch), kv_(kv), s_(scratch), shape_(model.shape()),
        rows_(batch.num_rows), q_width_(int64_t{c_.heads} * c_.head_dim),
        kv_width_(int64_t{c_.kv_heads} * c_.head_dim), qkv_width_(q_width_ + 2 * kv_width_), parts_(rows_),
        wanted_parts_(batch.num_wanted) {
    s_.resize(model, rows_, std::max(parts_.most_rows(), wanted_parts_.most_rows()));
    tasks_ = attention_tasks(ops(), shape_, batch.sequences, batch.num_sequences, ops().query_tile(shape_));
    groups_ = rows_by_block(batch);
  }

  void run(float* hidden) {
    const std::vector<Layer>& layers = model_.layers;
    ops().unpack_rows(*model_.embedding, batch_.token_ids, rows_, s_.x.data());
    parts_.each([&](const Part& part) { enter(layers[0], part, Branch::kNone); });
    for (size_t i = 0; i + 1 < layers.size(); i++) {
      attend(i);
      parts_.each([&](const Part& part) {
        leave(layers[i], part);
        enter(layers[i + 1], part, Branch::kAdd);
      });
    }
    attend(layers.size() - 1);
    keep_wanted_rows();
    wanted_parts_.each([&](const Part& part) {
      leave(layers.back(), part);
      const Workspace& w = workspace();
      int64_t first = part.first * c_.hidden;
      part.each_row([&](int64_t row) { norm(Branch::kAdd, w, model_.final_norm, row, &s_.x[first], hidden + first); });
    });
  }

 private:
  // Whether an operation begins with x += the branch that the one before has left in the workspace.
  enum class Branch { kNone, kAdd };

  Workspace& workspace() { return s_.workspaces[thread_index()]; }

  // The first half of a layer, up to its attention: queries, keys and values.
  void enter(const Layer& layer, const Part& part, Branch branch) {
    multiply_normed(branch, layer.attn_norm, *layer.qkv, part, &s_.qkv[part.first * qkv_width_]);
  }

  // The half after it, all but its last sum: x += o(attended); branch = down(silu(gate) * up).
  void leave(const Layer& layer, const Part& part) {
    Workspace& w = workspace();
    const float* attended = &s_.attended[part.first * q_width_];
    w.prepared.resize(*layer.o, part.rows);
    part.each_row([&](int64_t row) { w.prepared.prepare(*layer.o, attended + row * q_width_, row, 1); });
    part.multiply(*layer.o, w.prepared.view(attended), w.branch.data());
    multiply_normed(Branch::kAdd, layer.mlp_norm, *layer.gate_up, part, w.gate_up.data());
    w.prepared.resize(*layer.down, part.rows);
    part.each_row([&](int64_t row) {
      float* gated = &w.gated[row * c_.inner];
      ops().silu_mul(&w.gate_up[row * 2 * c_.inner], 1, c_.inner, gated);
      w.prepared.prepare(*layer.down, gated, row, 1);
    });
    part.multiply(*layer.down, w.prepared.view(w.gated.data()), w.branch.data());
  }

  void multiply_normed(Branch branch, const std::vector<float>& norm_weight, const Linear& linear, const Part& part,
                       float* out) {
    Workspace& w = workspace();
    float* x = &s_.x[part.first * c_.hidden];
    w.prepared.resize(linear, part.rows);
    part.each_row([&](int64_t row) {
      norm(branch, w, norm_weight, row, x, w.normed.data());
      w.prepared.prepare(linear, &w.normed[row * c_.hidden], row, 1);
    });
    part.multiply(linear, w.prepared.view(w.normed.data()), out);
  }

  // A row of the part's `out` becomes that row of its x after a norm.
  void norm(Branch branch, const Workspace& w, const std::vector<float>& weight, int64_t row, float* x, float* out) {
    x += row * c_.hidden;
    if (branch == Branch::kAdd) ops().add(x, &w.branch[row * c_.hidden], c_.hidden);
    ops().rms_norm(x, weight.data(), c_.norm_eps, 1, c_.hidden, out + row * c_.hidden);
  }

  // Rotation and KV write of the layer's queries, keys and values, then attention into s_.attended.
  void attend(size_t index) {
    const Layer& layer = model_.layers[index];
    int64_t offset = static_cast<int64_t>(index) * kv_.layer_bytes;
    KvLayer kv{kv_.keys + offset, kv_.values + offset};
    parallel(static_cast<int64_t>(groups_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        for (int64_t row = groups_[i].begin; row < groups_[i].end; row++) place(layer, kv, groups_[i].block, row);
    });
    parallel(static_cast<int64_t>(tasks_.size()), [&](int64_t begin, int64_t end) {
      ops().attention(shape_, kv, &tasks_[begin], end - begin, s_.qkv.data(), qkv_width_, s_.attended.data(),
                      workspace().attention.data());
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

  // After the last attention nobody reads the other rows: the wanted ones come first from here on.
  void keep_wanted_rows() {
    for (int64_t i = 0; i < batch_.num_wanted; i++) {
      int64_t row = batch_.wanted_rows[i];
      std::memmove(&s_.x[i * c_.hidden], &s_.x[row * c_.hidden], c_.hidden * sizeof(float));
      std::memmove(&s_.attended[i * q_width_], &s_.attended[row * q_width_], q_width_ * sizeof(float));
    }
  }

  const Model& model_;
  const ModelConfig& c_;
  const Batch& batch_;
  const KvCache& kv_;
  Scratch& s_;
  Shape shape_;
  int64_t rows_, q_width_, kv_width_, qkv_width_;
  Parts parts_, wanted_parts_;
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
  Part part{0, rows, true};
  part.each_row([&](int64_t row) { prepared.prepare(*model.lm_head, hidden + row * width, row, 1); });
  part.multiply(*model.lm_head, prepared.view(hidden), out);
}

}  // namespace headway
