// Runs whole steps of a small model, logits and draws for check.cpp, through the C functions that Python calls, with one
// thread and with three, which share scratch memory: their results must be the same bits.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "linear.h"
#include "model.h"
#include "pool.h"

using namespace headway;

extern "C" {
Linear* headway_linear_create(int64_t inputs);
void headway_linear_free(Linear* linear);
int headway_linear_add(Linear*, int32_t kind, int32_t packing, int64_t outputs, const uint8_t* raw, int64_t bytes);
int headway_linear_set_bias(Linear*, const float* bias, int64_t outputs);
Model* headway_model_create(const ModelConfig*);
void headway_model_free(Model*);
int headway_model_set_linear(Model*, int32_t layer, int32_t role, const Linear*);
int headway_model_set_vector(Model*, int32_t layer, int32_t role, const float* values, int64_t length);
int headway_model_is_complete(const Model*);
int headway_model_forward(const Model*, const Batch*, const KvCache*, float* hidden);
int headway_model_logits(const Model*, const float* hidden, int64_t rows, float* out);
int headway_argmax(const float* logits, int64_t width, const int32_t* rows, int64_t count, int32_t* out);
int headway_draw(const float* logits, int64_t width, const int32_t* rows, const Draw*, int64_t count,
                 int32_t are_masked, int32_t* out);
}

namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;
using OwnLinear = std::unique_ptr<Linear, decltype(&headway_linear_free)>;
using OwnModel = std::unique_ptr<Model, decltype(&headway_model_free)>;

std::mt19937 generator(2);

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::exit(1);
}

void require_done(int code) { require(code == 0, "a C function is done"); }

Floats random_floats(int64_t count, float size) {
  std::normal_distribution<float> normal(0, size);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// What the weights of a model are: the kind of all, or of each role in turn.
struct Weights {
  std::vector<Kind> kinds;
  Packing packing;
};

// A tensor of this kind. Of quantized ones all bytes are random but the scales, which are small.
std::vector<uint8_t> tensor(Kind kind, int64_t outputs, int64_t inputs) {
  std::vector<uint8_t> raw(static_cast<size_t>(raw_bytes(kind, outputs, inputs)));
  if (kind == kF32) {
    Floats values = random_floats(outputs * inputs, 0.1f);
    std::memcpy(raw.data(), values.data(), raw.size());
    return raw;
  }
  for (uint8_t& byte : raw) byte = static_cast<uint8_t>(generator());
  const int64_t weights = kind == kQ4_K || kind == kQ6_K ? kSuper : kGroup;  // of a record
  const size_t record = raw.size() / static_cast<size_t>(outputs * inputs / weights);
  const uint16_t scale = 0x1000;  // 2^-11
  for (size_t at = 0; at < raw.size(); at += record) {
    std::memcpy(&raw[at + (kind == kQ6_K ? 208 : 0)], &scale, 2);
    if (kind == kQ4_1 || kind == kQ4_K) std::memcpy(&raw[at + 2], &scale, 2);
  }
  return raw;
}

class SmallModel {
 public:
  SmallModel(const ModelConfig& config, const Weights& weights) : config_(config), weights_(weights) {
    const int64_t q = int64_t{config.heads} * config.head_dim, kv = int64_t{config.kv_heads} * config.head_dim;
    for (int32_t layer = 0; layer < config.num_layers; layer++) {
      set_linear(layer, 0, q + 2 * kv, config.hidden, true);
      set_linear(layer, 1, config.hidden, q, false);
      set_linear(layer, 2, 2 * int64_t{config.inner}, config.hidden, false);
      set_linear(layer, 3, config.hidden, config.inner, false);
      set_vector(layer, 0, config.hidden), set_vector(layer, 1, config.hidden);
      set_vector(layer, 2, config.head_dim), set_vector(layer, 3, config.head_dim);
    }
    set_linear(-1, 4, config.vocab, config.hidden, false);
    set_linear(-1, 5, config.vocab, config.hidden, false);
    set_vector(-1, 4, config.hidden);
    set_vector(-1, 5, int64_t{config.context} * config.head_dim / 2);
    set_vector(-1, 6, int64_t{config.context} * config.head_dim / 2);
    require(headway_model_is_complete(model_.get()), "the model is complete");
  }

  const ModelConfig& config() const { return config_; }
  const Model* get() const { return model_.get(); }

 private:
  void set_linear(int32_t layer, int32_t role, int64_t outputs, int64_t inputs, bool has_bias) {
    const Kind kind = weights_.kinds[linears_.size() % weights_.kinds.size()];
    OwnLinear linear(headway_linear_create(inputs), headway_linear_free);
    for (int64_t part : {outputs / 3, outputs - outputs / 3}) {  // segments that do not end with a block
      std::vector<uint8_t> raw = tensor(kind, part, inputs);
      const int64_t bytes = static_cast<int64_t>(raw.size());
      require_done(headway_linear_add(linear.get(), kind, weights_.packing, part, raw.data(), bytes));
    }
    if (has_bias) require_done(headway_linear_set_bias(linear.get(), random_floats(outputs, 0.1f).data(), outputs));
    require_done(headway_model_set_linear(model_.get(), layer, role, linear.get()));
    linears_.push_back(std::move(linear));
  }

  void set_vector(int32_t layer, int32_t role, int64_t length) {
    require_done(headway_model_set_vector(model_.get(), layer, role, random_floats(length, 1.0f).data(), length));
  }

  ModelConfig config_;
  Weights weights_;
  std::vector<OwnLinear> linears_;  // they outlive the model
  OwnModel model_{headway_model_create(&config_), headway_model_free};
};

// A cache and the steps that are taken on it: a chunk past a partition, a decode, and a chunk of a few blocks.
class Steps {
 public:
  explicit Steps(const SmallModel& model) : model_(model) {
    const ModelConfig& c = model.config();
    const int64_t layer_bytes = int64_t{kBlocks} * kBlockSize * c.kv_heads * c.head_dim * (c.kv_is_bf16 ? 2 : 4);
    keys_.assign(static_cast<size_t>(c.num_layers * layer_bytes), '\xff');
    values_ = keys_;
    cache_ = {keys_.data(), values_.data(), layer_bytes};
    for (int32_t block = kBlocks; block-- > 0;)
      (block >= 5 ? long_table_ : block >= 3 ? decode_table_ : short_table_).push_back(block);
  }

  // The logits of the wanted rows of a step of all three sequences.
  Floats run(const Ints& wanted) {
    const std::vector<Sequence> sequences{{0, 1, 20, decode_table_.data()},
                                          {1, kLong, 0, long_table_.data()},
                                          {kLong + 1, 40, 0, short_table_.data()}};
    Ints ids, positions;
    for (const Sequence& sequence : sequences)
      for (int32_t i = 0; i < sequence.count; i++) {
        ids.push_back(static_cast<int32_t>(ids.size()) * 7 % model_.config().vocab);
        positions.push_back(sequence.start + i);
      }
    const int32_t rows = static_cast<int32_t>(ids.size()), count = static_cast<int32_t>(wanted.size());
    const Batch batch{rows, 3, count, ids.data(), positions.data(), sequences.data(), wanted.data()};
    Floats hidden(static_cast<size_t>(count * model_.config().hidden));
    Floats out(static_cast<size_t>(count * model_.config().vocab));
    require_done(headway_model_forward(model_.get(), &batch, &cache_, hidden.data()));
    require_done(headway_model_logits(model_.get(), hidden.data(), count, out.data()));
    return out;
  }

  // Writes the tokens that the decode of `run` looks back on.
  void fill() {
    Ints ids(20, 3), positions(20);
    for (int32_t i = 0; i < 20; i++) positions[static_cast<size_t>(i)] = i;
    const Sequence sequence{0, 20, 0, decode_table_.data()};
    const Batch batch{20, 1, 0, ids.data(), positions.data(), &sequence, nullptr};
    require_done(headway_model_forward(model_.get(), &batch, &cache_, nullptr));
  }

  static constexpr int32_t kLong = 270;

 private:
  static constexpr int32_t kBlocks = 3 + 2 + (kLong + kBlockSize - 1) / kBlockSize;

  const SmallModel& model_;
  std::vector<char> keys_, values_;
  KvCache cache_;
  Ints long_table_, decode_table_, short_table_;
};

// Tokens of all rows: their best, and draws that go different ways through the search.
Ints tokens_of(const Floats& logits, int64_t width) {
  const int64_t rows = static_cast<int64_t>(logits.size()) / width;
  std::vector<Draw> draws;
  Ints from;
  for (int32_t row = 0; row < rows; row++)
    for (const Draw& draw : {Draw{0.8, 1.0, 0.0, 0.4, 0}, Draw{2.0, 0.9, 0.01, 0.7, 30}, Draw{0.0, 1.0, 0.0, 0.0, 0}}) {
      draws.push_back(draw);
      from.push_back(row);
    }
  const int64_t count = static_cast<int64_t>(from.size());
  Ints tokens(2 * from.size()), masked(from.size());
  require_done(headway_argmax(logits.data(), width, from.data(), count, tokens.data()));
  require_done(headway_draw(logits.data(), width, from.data(), draws.data(), count, 0, tokens.data() + count));
  for (int32_t token : tokens) require(token >= 0 && token < width, "there is a token");
  require_done(headway_draw(logits.data(), width, from.data(), draws.data(), count, 1, masked.data()));
  require(Ints(tokens.begin() + count, tokens.end()) == masked, "a mask of nothing changes nothing");
  return tokens;
}

void check_model(const ModelConfig& config, const Weights& weights) {
  const SmallModel model(config, weights);
  Floats first;
  Ints first_tokens;
  for (int threads : {1, 3}) {
    set_threads(threads);
    Steps steps(model);
    steps.fill();
    require(steps.run({}).empty(), "nothing is wanted");
    Ints many(47);  // shared by threads otherwise than the rows of the step
    std::iota(many.begin(), many.end(), 5);
    steps.run(many);
    const Floats logits = steps.run({0, 4, Steps::kLong, Steps::kLong + 40});
    for (float logit : logits) require(std::isfinite(logit), "logits are finite");
    const Ints tokens = tokens_of(logits, config.vocab);
    if (first.empty()) first = logits, first_tokens = tokens;
    require(!std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)), "threads change no bit");
    require(tokens == first_tokens, "threads change no token");
  }
}

}  // namespace

void check_step() {
  const ModelConfig odd{2, 52, 70, 6, 2, 16, 97, 300, 0, 1e-5f};     // no width is a multiple of 16
  const ModelConfig wide{1, 256, 256, 16, 2, 16, 600, 300, 1, 1e-5f};  // all are of 256
  ModelConfig odd_bf16 = odd;
  odd_bf16.kv_is_bf16 = 1;
  check_model(odd, {{kF32}, kOwn});
  check_model(odd_bf16, {{kF32}, kAsBF16});
  check_model(wide, {{kQ4_1, kQ6_K, kQ4_K, kQ8_0, kQ4_0}, kOwn});
}
