// What attention of a step is cut into.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dispatch.h"

namespace headway {

// Tasks of at most `tile` queries, in the order in which the cache is best read: heads of a block stand side by side.
inline std::vector<AttentionTask> attention_tasks(const Ops& ops, const Shape& shape, const Sequence* sequences,
                                                  int32_t count, int32_t tile) {
  std::vector<AttentionTask> tasks;
  tile = std::min(tile, ops.query_tile(shape));
  for (const Sequence* sequence = sequences; sequence != sequences + count; sequence++)
    for (int32_t begin = 0; begin < sequence->count; begin += tile)
      for (int32_t head = 0; head < shape.kv_heads; head++)
        tasks.push_back({sequence, head, begin, std::min(begin + tile, sequence->count)});
  return tasks;
}

}  // namespace headway
