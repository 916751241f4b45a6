// The C functions of packed linears. kernels/cpu/library.py calls them. Whatever returns int gives one of Result.
#include <algorithm>
#include <new>

#include "api.h"
#include "dispatch.h"
#include "guard.h"
#include "linear.h"
#include "pool.h"
#include "part.h"
#include "prepared_rows.h"

using namespace headway;

namespace {

bool is_kind(int32_t kind) { return kind >= kF32 && kind <= kQ6_K; }
bool is_packing(int32_t packing) { return packing >= kOwn && packing <= kAsBF16; }

}  // namespace

// A linear without outputs so far; null where `inputs` is no size or there is no memory.
HEADWAY_API Linear* headway_linear_create(int64_t inputs) {
  return inputs > 0 ? new (std::nothrow) Linear(inputs) : nullptr;
}

HEADWAY_API void headway_linear_free(Linear* linear) { delete linear; }

// Appends outputs: `raw` is a GGUF tensor [outputs, inputs] of `kind`, `bytes` long, which is copied. kNotFinite: a weight,
// or a scale, is an infinity or no number, or becomes one in this packing. kHasBias: nothing can follow a bias.
HEADWAY_API int headway_linear_add(Linear* linear, int32_t kind, int32_t packing, int64_t outputs, const uint8_t* raw,
                                   int64_t bytes) {
  if (!linear || !raw || !is_kind(kind) || !is_packing(packing) || bytes < 0) return kRefused;
  if (raw_bytes(Kind(kind), outputs, linear->k()) != bytes) return kRefused;
  if (linear->matrix.bias) return kHasBias;
  return guarded([&] {
    if (!is_finite(Kind(kind), Packing(packing), outputs, linear->k(), raw)) return kNotFinite;
    linear->add_segment(Kind(kind), Packing(packing), outputs, raw);
    return kDone;
  });
}

// Adds bias [outputs] to every row; segments come first.
HEADWAY_API int headway_linear_set_bias(Linear* linear, const float* bias, int64_t outputs) {
  if (!linear || !bias || outputs != linear->n()) return kRefused;
  return guarded([&] {
    linear->set_bias(bias);
    return kDone;
  });
}

HEADWAY_API int64_t headway_linear_outputs(const Linear* linear) { return linear->n(); }
HEADWAY_API int64_t headway_linear_packed_bytes(const Linear* linear) { return linear->packed_bytes(); }

// out [rows, outputs] of x [rows, inputs], shared by the threads as in a step.
HEADWAY_API int headway_linear_run(const Linear* linear, const float* x, int64_t rows, float* out) {
  if (!linear || rows < 0 || (rows > 0 && (!x || !out)) || linear->n() == 0) return kRefused;
  return guarded([&] {
    PreparedRows prepared;
    prepared.resize(*linear, rows);
    if (!rows) return kDone;
    const int64_t width = linear->k();
    Parts(rows).each([&](const Part& part) {
      const float* of_part = x + part.first * width;
      part.each_row([&](int64_t row) { prepared.prepare(*linear, of_part + row * width, part.first + row, 1); });
      part.multiply(*linear, prepared.view(of_part, part.first), out + part.first * linear->n());
    });
    return kDone;
  });
}

// The rows [count, inputs] of the weights that ids [count] name, as floats.
HEADWAY_API int headway_linear_unpack(const Linear* linear, const int32_t* ids, int64_t count, float* out) {
  if (!linear || count < 0 || (count > 0 && (!ids || !out))) return kRefused;
  if (!std::all_of(ids, ids + count, [&](int32_t id) { return id >= 0 && id < linear->n(); })) return kRefused;
  return guarded([&] {
    parallel(count, [&](int64_t begin, int64_t end) {
      ops().unpack_rows(*linear, ids + begin, end - begin, out + begin * linear->k());
    });
    return kDone;
  });
}
