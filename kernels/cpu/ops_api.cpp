// A level's table as it is, for tests and benchmarks that call one operation at a time: see kernels/cpu/ops.py.
#include "api.h"
#include "dispatch.h"

// Null where this machine or this build has no level of that name.
HEADWAY_API const headway::Ops* headway_ops(const char* level) { return headway::find_level(level); }

HEADWAY_API int headway_attention_supports(const headway::Shape* shape) { return headway::attention_supports(*shape); }
