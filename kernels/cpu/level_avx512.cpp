// The kernels in AVX-512 with VNNI and BF16.
#if defined(__AVX512F__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "linear.h"
#include "ops.h"

namespace headway {
namespace avx512 {

#include "simd_avx512.h"
#include "elementwise_kernels.h"
#include "draw_kernels.h"
#include "kv_kernels.h"
#include "attention_kernels.h"
#include "activation_kernels.h"
#include "weight_formats.h"
#include "linear_kernels.h"
#include "unpack_kernels.h"

#include "level_table.h"

const Ops ops = table("avx512");

}  // namespace avx512

const Ops* const kAvx512 = &avx512::ops;

}  // namespace headway
#else
#include "ops.h"

namespace headway {

const Ops* const kAvx512 = nullptr;

}  // namespace headway
#endif
