// Sixteen lanes in AVX-512 (F, BW, DQ, VL, VNNI, BF16). See simd_portable.h for what each function means.

using F16 = __m512;
using I16 = __m512i;
struct B64 {
  __m512i v;
};

constexpr int kRowTile = 8;
constexpr int kAccumulators = 24;

inline F16 zero() { return _mm512_setzero_ps(); }
inline F16 set1(float x) { return _mm512_set1_ps(x); }
inline F16 load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F16 a) { _mm512_storeu_ps(p, a); }
inline F16 add(F16 a, F16 b) { return _mm512_add_ps(a, b); }
inline F16 sub(F16 a, F16 b) { return _mm512_sub_ps(a, b); }
inline F16 mul(F16 a, F16 b) { return _mm512_mul_ps(a, b); }
inline F16 div(F16 a, F16 b) { return _mm512_div_ps(a, b); }
inline F16 fma(F16 a, F16 b, F16 c) { return _mm512_fmadd_ps(a, b, c); }
inline F16 absolute(F16 a) { return _mm512_abs_ps(a); }
inline F16 max(F16 a, F16 b) { return _mm512_max_ps(a, b); }
inline F16 min(F16 a, F16 b) { return _mm512_min_ps(a, b); }
inline F16 round_even(F16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
inline F16 scale2(F16 a, F16 n) { return _mm512_scalef_ps(a, n); }
inline __mmask16 lanes(int count) { return static_cast<__mmask16>((1u << count) - 1); }
inline F16 first(F16 a, int count) { return _mm512_maskz_mov_ps(lanes(count), a); }
inline F16 first_or(F16 a, int count, float other) { return _mm512_mask_mov_ps(set1(other), lanes(count), a); }
inline float sum(F16 a) {
  __m256 s = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float max_lane(F16 a) { return _mm512_reduce_max_ps(a); }
inline uint32_t at_least(F16 a, F16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

inline I16 izero() { return _mm512_setzero_si512(); }
inline I16 iset1(int32_t a) { return _mm512_set1_epi32(a); }
inline F16 to_float(I16 a) { return _mm512_cvtepi32_ps(a); }
inline I16 iadd(I16 a, I16 b) { return _mm512_add_epi32(a, b); }
inline F16 bits_of(B64 a, int shift, int32_t mask) {
  __m512i shifted = _mm512_srl_epi32(a.v, _mm_cvtsi32_si128(shift));
  return _mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(mask)));
}
inline F16 load_u8(const uint8_t* p) {
  return to_float(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline F16 load_s8(const uint8_t* p) {
  return to_float(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline int32_t store_s8(int8_t* p, F16 a, F16 b) {
  __m512i low = _mm512_cvtps_epi32(a), high = _mm512_cvtps_epi32(b);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm512_cvtepi32_epi8(high));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
}

inline B64 load_bytes(const void* p) { return {_mm512_loadu_si512(p)}; }
inline B64 low_nibbles(B64 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
inline B64 high_nibbles(B64 a) { return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))}; }
template <int kBit>
inline B64 two_bits_up(B64 a) {
  constexpr unsigned kLeft = kBit < 4 ? 4 - kBit : 0, kRight = kBit < 4 ? 0 : kBit - 4;
  __m512i moved = _mm512_srli_epi16(_mm512_slli_epi16(a.v, kLeft), kRight);
  return {_mm512_and_si512(moved, _mm512_set1_epi8(0x30))};
}
inline B64 combine(B64 a, B64 b) { return {_mm512_or_si512(a.v, b.v)}; }

inline I16 dot_u8s8(I16 acc, B64 w, int32_t x) { return _mm512_dpbusd_epi32(acc, w.v, _mm512_set1_epi32(x)); }
inline I16 dot_u7s8(I16 acc, B64 w, int32_t x) { return dot_u8s8(acc, w, x); }

inline F16 dot_bf16(F16 acc, B64 w, uint32_t x) {
  return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_set1_epi32(static_cast<int>(x)), (__m512bh)w.v);
}
inline void store_bf16(uint16_t* p, F16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(a));
}
inline F16 load_bf16(const uint16_t* p) {
  __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
inline F16 load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
inline void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

using D8 = __m512d;

inline D8 set1_double(double x) { return _mm512_set1_pd(x); }
inline D8 load_double(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
inline void store(double* p, D8 a) { _mm512_storeu_pd(p, a); }
inline D8 add(D8 a, D8 b) { return _mm512_add_pd(a, b); }
inline D8 sub(D8 a, D8 b) { return _mm512_sub_pd(a, b); }
inline D8 mul(D8 a, D8 b) { return _mm512_mul_pd(a, b); }
inline D8 mul_add(D8 a, D8 b, D8 c) { return _mm512_fmadd_pd(a, b, c); }
inline D8 max(D8 a, D8 b) { return _mm512_max_pd(a, b); }
inline D8 round_even(D8 a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT); }
inline D8 scale2(D8 a, D8 n) { return _mm512_scalef_pd(a, n); }
inline double sum(D8 a) {
  __m256d s = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  __m128d q = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}
