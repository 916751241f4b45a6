// Runs pool, linears and the rest (check_rows.cpp, check_step.cpp) at every level of the machine, to be built with a
// sanitizer: test_sanitizers.py does.
// Buffers are exactly as large as they must be, so that one byte read or written beyond them is found.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "dispatch.h"
#include "linear.h"
#include "pool.h"
#include "prepared_rows.h"

using namespace headway;

void check_rows();  // check_rows.cpp
void check_step();  // check_step.cpp

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::exit(1);
}

std::mt19937 generator(1);  // of bytes and floats alike

// Bytes of a tensor whose numbers are finite.
std::vector<uint8_t> random_tensor(Kind kind, int64_t outputs, int64_t inputs) {
  std::vector<uint8_t> raw(static_cast<size_t>(raw_bytes(kind, outputs, inputs)));
  for (uint8_t& byte : raw) byte = static_cast<uint8_t>(generator() & 0xbf);  // no exponent is full
  require(is_finite(kind, kAsBF16, outputs, inputs, raw.data()), "the tensor is finite");
  return raw;
}

std::vector<float> random_rows(int64_t rows, int64_t inputs) {
  std::vector<float> x(static_cast<size_t>(rows * inputs));
  for (float& value : x) value = static_cast<float>(generator()) / 4e9f - 0.5f;
  return x;
}

std::vector<float> run(const Linear& weights, const std::vector<float>& x, int64_t rows) {
  PreparedRows prepared;
  prepared.resize(weights, rows);
  prepared.prepare(weights, x.data(), 0, rows);
  Activations activations = prepared.view(x.data());
  std::vector<float> out(static_cast<size_t>(rows * weights.n()));
  parallel(weights.num_blocks(), [&](int64_t begin, int64_t end) {
    ops().linear(weights, activations, rows, out.data(), begin, end);
  });
  return out;
}

void check_linear(Kind kind, Packing packing, int64_t inputs) {
  Linear weights(inputs);
  for (int64_t outputs : {5, 16, 21}) {
    std::vector<uint8_t> raw = random_tensor(kind, outputs, inputs);
    weights.add_segment(kind, packing, outputs, raw.data());
  }
  std::vector<float> bias(static_cast<size_t>(weights.n()), 0.25f);
  weights.set_bias(bias.data());
  for (int64_t rows : {1, 3, 8, 11}) {
    std::vector<float> x = random_rows(rows, inputs), out = run(weights, x, rows);
    std::vector<float> last(x.end() - inputs, x.end()), alone = run(weights, last, 1);
    require(!std::memcmp(alone.data(), &out[out.size() - alone.size()], alone.size() * 4), "a row is the same alone");
  }
  std::vector<int32_t> ids{0, 4, 5, 20, 21, 41};
  std::vector<float> unpacked(ids.size() * static_cast<size_t>(inputs));
  ops().unpack_rows(weights, ids.data(), static_cast<int64_t>(ids.size()), unpacked.data());
}

void check_linears() {
  for (int32_t kind = kF32; kind <= kQ6_K; kind++)
    for (Packing packing : {kOwn, kAsF32, kAsBF16}) check_linear(Kind(kind), packing, 256);
  for (Kind kind : {kF32, kF16, kBF16})
    for (int64_t inputs : {1, 7, 33}) check_linear(kind, kOwn, inputs);
}

// Every task is done once, whatever the numbers of tasks and threads.
void check_pool() {
  for (int count : {1, 2, 5, 3}) {
    set_threads(count);
    for (int64_t tasks : {0, 1, 2, 3, 17, 1000})
      for (int round = 0; round < 50; round++) {
        std::vector<int> done(static_cast<size_t>(tasks), 0);
        parallel(tasks, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) done[static_cast<size_t>(i)]++;
        });
        for (int times : done) require(times == 1, "each task is done once");
      }
  }
}

// Several threads call the pool, and one changes the number of its threads.
void check_callers() {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; c++)
    callers.emplace_back([&] {
      for (int round = 0; round < 100; round++)
        parallel(40, [&](int64_t begin, int64_t end) { total.fetch_add(end - begin); });
    });
  for (int count : {2, 4, 1, 3}) set_threads(count);
  for (std::thread& caller : callers) caller.join();
  require(total.load() == 3 * 100 * 40, "no task is lost between callers");
}

}  // namespace

int main() {
  check_pool();
  check_callers();
  for (const char* name : {"avx512", "avx2", "portable"}) {
    const Ops* level = find_level(name);
    if (!level) continue;
    use_level(level);
    set_threads(3);
    check_linears();
    check_rows();
    check_step();
    std::printf("%s\n", name);
  }
  return 0;
}
