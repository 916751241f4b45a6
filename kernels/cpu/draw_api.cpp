// The C ABI of sampling: see kernels/cpu/sampling.py, which is its only caller and checks what it passes.
#include <vector>

#include "api.h"
#include "dispatch.h"
#include "guard.h"
#include "pool.h"

// Token i of `out` is what draws[i] draws from row rows[i] of logits [..., width], or -1: see Ops::draw. One of Result.
HEADWAY_API int headway_draw(const float* logits, int64_t width, const int32_t* rows, const headway::Draw* draws,
                             int64_t count, int32_t are_masked, int32_t* out) {
  return headway::guarded([&] {
    headway::Shortage shortage;
    headway::parallel(count, [&](int64_t begin, int64_t end) {
      shortage.note([&] {
        static thread_local std::vector<headway::Candidate> candidates;
        static thread_local std::vector<float> block_best;
        candidates.resize(static_cast<size_t>(2 * width));
        block_best.resize(static_cast<size_t>((width + headway::kSearchWidth - 1) / headway::kSearchWidth));
        const headway::DrawRoom room{candidates.data(), block_best.data()};
        for (int64_t i = begin; i < end; i++)
          out[i] = headway::ops().draw(logits + rows[i] * width, width, are_masked, draws[i], room);
      });
    });
    shortage.raise();
    return headway::kDone;
  });
}
