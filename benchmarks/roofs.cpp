// What the machine can do at most: bytes read from memory and operations in registers, on a number of threads.
//
// Compiled by benchmarks/kernels.py for one level (HEADWAY_SIMD names its header), so that it uses the instructions that
// the kernels use. Prints lines of a name and a value, in thousand million a second.
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

// Zeros that the compiler cannot know: whoever is linked with this could write them. Activations are read for every
// operation, weights once.
int32_t inputs[16];
uint8_t weights[64];

namespace {

#include HEADWAY_SIMD

constexpr int kChains = kRowTile;  // independent sums: enough to hide the latency of each, few enough for registers
constexpr int64_t kSteps = 300000;
constexpr int kRounds = 9;
constexpr size_t kBytesPerThread = size_t{192} << 20;  // far more than any cache holds

volatile float sink;

void keep(F16 a) { sink = sum(a); }
void keep(I16 a) { keep(to_float(a)); }

template <class Sum, class Step>
void in_registers(Sum start, Step step) {
  Sum sums[kChains];  // in registers, for every loop over them is unrolled
#pragma GCC unroll 16
  for (int j = 0; j < kChains; j++) sums[j] = start;
  for (int64_t i = 0; i < kSteps; i++) {
    asm volatile("" ::: "memory");
#pragma GCC unroll 16
    for (int j = 0; j < kChains; j++) sums[j] = step(sums[j], inputs[j]);
  }
#pragma GCC unroll 16
  for (int j = 0; j < kChains; j++) keep(sums[j]);
}

void run_int8() {
  B64 w = load_bytes(weights);
  in_registers(izero(), [w](I16 a, int32_t x) { return dot_u7s8(a, w, x); });
}
void run_bf16() {
  B64 w = load_bytes(weights);
  in_registers(zero(), [w](F16 a, int32_t x) { return dot_bf16(a, w, static_cast<uint32_t>(x)); });
}
void run_fp32() {
  F16 w = load(reinterpret_cast<const float*>(weights));
  in_registers(zero(), [w](F16 a, int32_t x) {
    float value;
    memcpy(&value, &x, 4);
    return fma(w, set1(value), a);
  });
}

struct Memory {
  uint8_t* begin;

  Memory() : begin(static_cast<uint8_t*>(std::aligned_alloc(size_t{2} << 20, kBytesPerThread))) {
    if (!begin) std::abort();
#if defined(MADV_HUGEPAGE)
    madvise(begin, kBytesPerThread, MADV_HUGEPAGE);
#endif
    memset(begin, 1, kBytesPerThread);
  }
  ~Memory() { std::free(begin); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void read() const {
    F16 sums[4] = {zero(), zero(), zero(), zero()};
    for (size_t i = 0; i < kBytesPerThread; i += 256)
      for (size_t j = 0; j < 4; j++) {
        prefetch(begin + i + 64 * j + 1280);
        sums[j] = add(sums[j], load(reinterpret_cast<const float*>(begin + i + 64 * j)));
      }
    keep(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
  }
};

// Seconds that the best round took, from when all threads have begun until the last one is done.
template <class Work>
double seconds(int threads, Work work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; round++) {
    std::atomic<int> ready{0};
    std::vector<std::thread> all;
    std::chrono::steady_clock::time_point began;
    for (int t = 0; t < threads; t++)
      all.emplace_back([&, t] {
        ready++;
        while (ready < threads) {
        }
        if (t == 0) began = std::chrono::steady_clock::now();
        work(t);
      });
    for (std::thread& thread : all) thread.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = argc == 2 ? std::atoi(argv[1]) : 1;
  std::vector<Memory> memory(static_cast<size_t>(threads));
  double calls = 1e-9 * threads * static_cast<double>(kSteps) * kChains;
  std::printf("read %.6g\n", 1e-9 * threads * kBytesPerThread / seconds(threads, [&](int t) { memory[t].read(); }));
  std::printf("int8 %.6g\n", 128 * calls / seconds(threads, [](int) { run_int8(); }));
  std::printf("bf16 %.6g\n", 64 * calls / seconds(threads, [](int) { run_bf16(); }));
  std::printf("fp32 %.6g\n", 32 * calls / seconds(threads, [](int) { run_fp32(); }));
  return 0;
}
