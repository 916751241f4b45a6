// A level's table as it is, for tests and benchmarks that call one operation at a time: see kernels/cpu/ops.py.
#include "api.h"
#include "attention_tasks.h"
#include "dispatch.h"

// Null where this machine or this build has no level of that name.
HEADWAY_API const headway::Ops* headway_ops(const char* level) { return headway::find_level(level); }

HEADWAY_API int headway_attention_supports(const headway::Shape* shape) { return headway::attention_supports(*shape); }

// Attention of one layer on this thread, at most `tile` queries a task.
HEADWAY_API void headway_attention(const headway::Ops* level, const headway::Shape* shape, const headway::KvLayer* kv,
                                   const headway::Sequence* sequences, int32_t count, int32_t tile,
                                   const float* queries, int64_t q_stride, float* out, float* scratch) {
  const auto tasks = headway::attention_tasks(*level, *shape, sequences, count, tile);
  level->attention(*shape, *kv, tasks.data(), static_cast<int64_t>(tasks.size()), queries, q_stride, out, scratch);
}
