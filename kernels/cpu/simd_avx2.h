// Sixteen lanes in AVX2, FMA and F16C: two registers each. See simd_portable.h for what each function means.

struct F16 {
  __m256 low, high;
};
struct I16 {
  __m256i low, high;
};
struct B64 {
  __m256i low, high;
};

constexpr int kRowTile = 4;
constexpr int kAccumulators = 6;

inline F16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F16 a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
inline F16 add(F16 a, F16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline F16 sub(F16 a, F16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline F16 mul(F16 a, F16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline F16 div(F16 a, F16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline F16 fma(F16 a, F16 b, F16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F16 absolute(F16 a) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline F16 max(F16 a, F16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline F16 min(F16 a, F16 b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline F16 round_even(F16 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
}
// Powers of two by their exponent bits, in two halves so that every result down to the smallest subnormal is reached.
inline __m256 scale2_half(__m256 a, __m256 n) {
  __m256i whole = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(n, _mm256_set1_ps(-252)), _mm256_set1_ps(254)));
  __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half), bias = _mm256_set1_epi32(127);
  a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}
inline F16 scale2(F16 a, F16 n) { return {scale2_half(a.low, n.low), scale2_half(a.high, n.high)}; }
inline __m256 lanes_below(int count, int first_lane) {
  __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first_lane));
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
}
inline F16 first(F16 a, int count) {
  return {_mm256_and_ps(a.low, lanes_below(count, 0)), _mm256_and_ps(a.high, lanes_below(count, 8))};
}
inline F16 first_or(F16 a, int count, float other) {
  __m256 b = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(b, a.low, lanes_below(count, 0)), _mm256_blendv_ps(b, a.high, lanes_below(count, 8))};
}
inline float sum(F16 a) {
  __m256 s = _mm256_add_ps(a.low, a.high);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float max_lane(F16 a) {
  __m256 s = _mm256_max_ps(a.low, a.high);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline uint32_t at_least(F16 a, F16 b) {
  int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ));
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ)) << 8 | low);
}

inline I16 izero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I16 iset1(int32_t a) { return {_mm256_set1_epi32(a), _mm256_set1_epi32(a)}; }
inline F16 to_float(I16 a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline I16 iadd(I16 a, I16 b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline F16 bits_of(B64 a, int shift, int32_t mask) {
  __m128i count = _mm_cvtsi32_si128(shift);
  __m256i kept = _mm256_set1_epi32(mask);
  return {_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(a.low, count), kept)),
          _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(a.high, count), kept))};
}
inline F16 load_u8(const uint8_t* p) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return to_float({_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))});
}
inline F16 load_s8(const uint8_t* p) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return to_float({_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))});
}
inline int32_t store_s8(int8_t* p, F16 a, F16 b) {
  __m256i words_a = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
  __m256i words_b = _mm256_packs_epi32(_mm256_cvtps_epi32(b.low), _mm256_cvtps_epi32(b.high));
  __m256i bytes = _mm256_packs_epi16(words_a, words_b);  // by fours: of a lane 0, 8; of b 0, 8; then those of 4 and 12
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
  __m256i pairs = _mm256_madd_epi16(_mm256_add_epi16(words_a, words_b), _mm256_set1_epi16(1));
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

inline B64 load_bytes(const void* p) {
  const __m256i* halves = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline __m256i byte_mask(__m256i a, int mask) { return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(mask))); }
inline B64 low_nibbles(B64 a) { return {byte_mask(a.low, 15), byte_mask(a.high, 15)}; }
inline B64 high_nibbles(B64 a) {
  return {byte_mask(_mm256_srli_epi16(a.low, 4), 15), byte_mask(_mm256_srli_epi16(a.high, 4), 15)};
}
template <int kBit>
inline B64 two_bits_up(B64 a) {
  constexpr int kLeft = kBit < 4 ? 4 - kBit : 0, kRight = kBit < 4 ? 0 : kBit - 4;
  return {byte_mask(_mm256_srli_epi16(_mm256_slli_epi16(a.low, kLeft), kRight), 0x30),
          byte_mask(_mm256_srli_epi16(_mm256_slli_epi16(a.high, kLeft), kRight), 0x30)};
}
inline B64 combine(B64 a, B64 b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }

// Pairs of bytes go to 16 bits: exact here, where 2 * 127 * 127 fits.
inline __m256i dot_pairs(__m256i acc, __m256i u, __m256i s) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
}
inline I16 dot_u7s8(I16 acc, B64 w, int32_t x) {
  __m256i four = _mm256_set1_epi32(x);
  return {dot_pairs(acc.low, w.low, four), dot_pairs(acc.high, w.high, four)};
}
// Where pairs do not fit 16 bits: even and odd bytes apart.
inline __m256i dot_apart(__m256i acc, __m256i w, __m256i x_even, __m256i x_odd) {
  __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(w, 8);
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(even, x_even));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(odd, x_odd));
}
inline I16 dot_u8s8(I16 acc, B64 w, int32_t x) {
  __m256i four = _mm256_set1_epi32(x);
  __m256i x_even = _mm256_srai_epi16(_mm256_slli_epi16(four, 8), 8), x_odd = _mm256_srai_epi16(four, 8);
  return {dot_apart(acc.low, w.low, x_even, x_odd), dot_apart(acc.high, w.high, x_even, x_odd)};
}

inline __m256 low_bf16(__m256i a) { return _mm256_castsi256_ps(_mm256_slli_epi32(a, 16)); }
inline __m256 high_bf16(__m256i a) {
  return _mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline __m256 dot_bf16_half(__m256 acc, __m256i w, __m256i x) {
  acc = _mm256_fmadd_ps(high_bf16(w), high_bf16(x), acc);
  return _mm256_fmadd_ps(low_bf16(w), low_bf16(x), acc);
}
inline F16 dot_bf16(F16 acc, B64 w, uint32_t x) {
  __m256i pair = _mm256_set1_epi32(static_cast<int>(x));
  return {dot_bf16_half(acc.low, w.low, pair), dot_bf16_half(acc.high, w.high, pair)};
}
// Eight floats as bfloat16 in the low halves of their lanes: to nearest, ties to even; NaN stays NaN.
inline __m256i round_bf16(__m256 a) {
  __m256i bits = _mm256_castps_si256(a), upper = _mm256_srli_epi32(bits, 16);
  __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  __m256i nearest = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
  __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(nearest, _mm256_or_si256(upper, _mm256_set1_epi32(64)), is_nan);
}
inline void store_bf16(uint16_t* p, F16 a) {
  __m256i packed = _mm256_packus_epi32(round_bf16(a.low), round_bf16(a.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline F16 load_bf16(const uint16_t* p) {
  __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {low_bf16(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(half))),
          low_bf16(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(half, 1)))};
}
inline F16 load_half(const uint16_t* p) {
  const __m128i* halves = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
inline void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

struct D8 {
  __m256d low, high;
};

inline D8 set1_double(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
inline D8 load_double(const float* p) {
  return {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
}
inline void store(double* p, D8 a) {
  _mm256_storeu_pd(p, a.low);
  _mm256_storeu_pd(p + 4, a.high);
}
inline D8 add(D8 a, D8 b) { return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)}; }
inline D8 sub(D8 a, D8 b) { return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)}; }
inline D8 mul(D8 a, D8 b) { return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)}; }
inline D8 mul_add(D8 a, D8 b, D8 c) {
  return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
inline D8 max(D8 a, D8 b) { return {_mm256_max_pd(a.low, b.low), _mm256_max_pd(a.high, b.high)}; }
inline D8 round_even(D8 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_pd(a.low, kNearest), _mm256_round_pd(a.high, kNearest)};
}
// Adds n, from the low bits that it has beside 1.5 * 2^52, to the exponent bits.
inline __m256d scale2_half(__m256d a, __m256d n) {
  __m256i whole = _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(6755399441055744.0)));
  return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_slli_epi64(whole, 52)));
}
inline D8 scale2(D8 a, D8 n) { return {scale2_half(a.low, n.low), scale2_half(a.high, n.high)}; }
inline double sum(D8 a) {
  __m256d s = _mm256_add_pd(a.low, a.high);
  __m128d q = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}
