// The kernels in plain C++.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "linear.h"
#include "ops.h"

namespace headway {
namespace portable {

#include "simd_portable.h"
#include "elementwise_kernels.h"
#include "draw_kernels.h"
#include "kv_kernels.h"
#include "attention_kernels.h"
#include "activation_kernels.h"
#include "weight_formats.h"
#include "linear_kernels.h"
#include "unpack_kernels.h"

#include "level_table.h"

const Ops ops = table("portable");

}  // namespace portable

const Ops* const kPortable = &portable::ops;

}  // namespace headway
