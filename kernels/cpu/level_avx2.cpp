// The kernels in AVX2, FMA and F16C.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "linear.h"
#include "ops.h"

namespace headway {
namespace avx2 {

#include "simd_avx2.h"
#include "elementwise_kernels.h"
#include "draw_kernels.h"
#include "kv_kernels.h"
#include "attention_kernels.h"
#include "activation_kernels.h"
#include "weight_formats.h"
#include "linear_kernels.h"
#include "unpack_kernels.h"

#include "level_table.h"

const Ops ops = table("avx2");

}  // namespace avx2

const Ops* const kAvx2 = &avx2::ops;

}  // namespace headway
#else
#include "ops.h"

namespace headway {

const Ops* const kAvx2 = nullptr;

}  // namespace headway
#endif
