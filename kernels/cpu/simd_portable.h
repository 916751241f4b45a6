// Sixteen lanes in plain C++: what the kernels are written in, and the definition that the other levels keep to.
//
// Included once per level inside that level's namespace (see level_*.cpp), so that a kernel header is compiled for each
// instruction set under a name of its own. No include guard, and no includes: level_*.cpp brings the standard headers.

struct F16 {  // 16 floats
  float lane[16];
};
struct I16 {  // 16 int32
  int32_t lane[16];
};
struct B64 {  // 64 bytes
  uint8_t byte[64];
};

constexpr int kRowTile = 4;  // rows of x that a linear keeps in registers
constexpr int kAccumulators = 4;  // F16 sums that fit in registers beside what they are made of

inline F16 zero() { return F16{}; }
inline F16 set1(float x) {
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = x;
  return r;
}
inline F16 load(const float* p) {
  F16 r;
  memcpy(&r, p, sizeof r);
  return r;
}
inline void store(float* p, F16 a) { memcpy(p, &a, sizeof a); }
inline F16 add(F16 a, F16 b) {
  for (int i = 0; i < 16; i++) a.lane[i] += b.lane[i];
  return a;
}
inline F16 sub(F16 a, F16 b) {
  for (int i = 0; i < 16; i++) a.lane[i] -= b.lane[i];
  return a;
}
inline F16 mul(F16 a, F16 b) {
  for (int i = 0; i < 16; i++) a.lane[i] *= b.lane[i];
  return a;
}
inline F16 div(F16 a, F16 b) {
  for (int i = 0; i < 16; i++) a.lane[i] /= b.lane[i];
  return a;
}
inline F16 fma(F16 a, F16 b, F16 c) {  // a * b + c, rounded once
  for (int i = 0; i < 16; i++) c.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}
inline F16 absolute(F16 a) {
  for (int i = 0; i < 16; i++) a.lane[i] = std::fabs(a.lane[i]);
  return a;
}
inline F16 max(F16 a, F16 b) {  // b where either is NaN
  for (int i = 0; i < 16; i++) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
inline F16 min(F16 a, F16 b) {  // b where either is NaN
  for (int i = 0; i < 16; i++) a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
inline F16 round_even(F16 a) {
  for (int i = 0; i < 16; i++) a.lane[i] = std::nearbyint(a.lane[i]);
  return a;
}
inline F16 scale2(F16 a, F16 n) {  // a * 2^n, n whole
  for (int i = 0; i < 16; i++) a.lane[i] = std::ldexp(a.lane[i], static_cast<int>(n.lane[i]));
  return a;
}
inline F16 first(F16 a, int count) {  // the first `count` lanes, +0 in the rest
  for (int i = count; i < 16; i++) a.lane[i] = 0.0f;
  return a;
}
inline F16 first_or(F16 a, int count, float other) {  // the first `count` lanes, `other` in the rest
  for (int i = count; i < 16; i++) a.lane[i] = other;
  return a;
}
// Sums lane i with lane i + 8, then + 4, + 2, + 1: one fixed tree.
inline float sum(F16 a) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
  return a.lane[0];
}
inline float max_lane(F16 a) {
  float best = a.lane[0];
  for (int i = 1; i < 16; i++) best = a.lane[i] > best ? a.lane[i] : best;
  return best;
}
inline uint32_t at_least(F16 a, F16 b) {  // bit i: whether lane i of a is at least that of b; not where either is NaN
  uint32_t bits = 0;
  for (int i = 0; i < 16; i++) bits |= static_cast<uint32_t>(a.lane[i] >= b.lane[i]) << i;
  return bits;
}

inline I16 izero() { return I16{}; }
inline I16 iset1(int32_t a) {
  I16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = a;
  return r;
}
inline F16 to_float(I16 a) {
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = static_cast<float>(a.lane[i]);
  return r;
}
inline I16 iadd(I16 a, I16 b) {
  for (int i = 0; i < 16; i++) a.lane[i] += b.lane[i];
  return a;
}
inline F16 bits_of(B64 a, int shift, int32_t mask) {  // each lane's 32 bits, shifted right and masked, as a float
  F16 r;
  for (int i = 0; i < 16; i++) {
    uint32_t lane;
    memcpy(&lane, a.byte + 4 * i, 4);
    r.lane[i] = static_cast<float>(static_cast<int32_t>(lane >> shift) & mask);
  }
  return r;
}
inline F16 load_u8(const uint8_t* p) {  // 16 unsigned bytes as floats
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = p[i];
  return r;
}
inline F16 load_s8(const uint8_t* p) {  // 16 signed bytes as floats
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = static_cast<int8_t>(p[i]);
  return r;
}
// Stores the lanes of a, then of b, rounded to nearest even, as signed bytes; returns their sum. Lanes are between -127.5
// and 127.5.
inline int32_t store_s8(int8_t* p, F16 a, F16 b) {
  int32_t total = 0;
  for (int i = 0; i < 32; i++) {
    p[i] = static_cast<int8_t>(std::nearbyint(i < 16 ? a.lane[i] : b.lane[i - 16]));
    total += p[i];
  }
  return total;
}

inline B64 load_bytes(const void* p) {
  B64 r;
  memcpy(&r, p, sizeof r);
  return r;
}
inline B64 low_nibbles(B64 a) {
  for (int i = 0; i < 64; i++) a.byte[i] &= 15;
  return a;
}
inline B64 high_nibbles(B64 a) {
  for (int i = 0; i < 64; i++) a.byte[i] >>= 4;
  return a;
}
// Bits kBit and kBit + 1 of each byte, moved to bits 4 and 5; the rest is zero.
template <int kBit>
inline B64 two_bits_up(B64 a) {
  for (int i = 0; i < 64; i++) a.byte[i] = static_cast<uint8_t>((a.byte[i] >> kBit & 3) << 4);
  return a;
}
inline B64 combine(B64 a, B64 b) {  // bitwise or
  for (int i = 0; i < 64; i++) a.byte[i] |= b.byte[i];
  return a;
}
// acc[i] += sum over j < 4 of unsigned w[4 i + j] * signed x[j]; x is four bytes, the same for all lanes.
inline I16 dot_u8s8(I16 acc, B64 w, int32_t x) {
  int8_t four[4];
  memcpy(four, &x, 4);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 4; j++) acc.lane[i] += static_cast<int32_t>(w.byte[4 * i + j]) * four[j];
  return acc;
}
// The same of w up to 127: cheaper on some machines.
inline I16 dot_u7s8(I16 acc, B64 w, int32_t x) { return dot_u8s8(acc, w, x); }

// bfloat16 pairs: w holds, per lane, two bfloat16 (the first in the low half); x is one pair for all lanes.
inline float bf16_to_float(uint16_t b) {
  uint32_t u = static_cast<uint32_t>(b) << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
inline uint16_t float_to_bf16(float f) {  // to nearest, ties to even; NaN stays NaN
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 64);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline F16 dot_bf16(F16 acc, B64 w, uint32_t x) {
  uint16_t pairs[32];
  memcpy(pairs, &w, 64);
  float x0 = bf16_to_float(static_cast<uint16_t>(x)), x1 = bf16_to_float(static_cast<uint16_t>(x >> 16));
  for (int i = 0; i < 16; i++) {
    acc.lane[i] = std::fma(bf16_to_float(pairs[2 * i + 1]), x1, acc.lane[i]);
    acc.lane[i] = std::fma(bf16_to_float(pairs[2 * i]), x0, acc.lane[i]);
  }
  return acc;
}
inline void store_bf16(uint16_t* p, F16 a) {
  for (int i = 0; i < 16; i++) p[i] = float_to_bf16(a.lane[i]);
}
inline F16 load_bf16(const uint16_t* p) {
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = bf16_to_float(p[i]);
  return r;
}
inline float half_to_float(uint16_t h) {
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  float magnitude;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    uint32_t bits = exponent == 31 ? 0x7f800000u | (mantissa << 13) : ((exponent + 112) << 23) | (mantissa << 13);
    memcpy(&magnitude, &bits, 4);
  }
  uint32_t bits;
  memcpy(&bits, &magnitude, 4);
  bits |= sign;
  memcpy(&magnitude, &bits, 4);
  return magnitude;
}
inline F16 load_half(const uint16_t* p) {
  F16 r;
  for (int i = 0; i < 16; i++) r.lane[i] = half_to_float(p[i]);
  return r;
}
inline void prefetch(const void* p) { __builtin_prefetch(p); }
inline void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

struct D8 {  // 8 doubles
  double lane[8];
};

inline D8 set1_double(double x) {
  D8 r;
  for (int i = 0; i < 8; i++) r.lane[i] = x;
  return r;
}
inline D8 load_double(const float* p) {  // of 8 floats
  D8 r;
  for (int i = 0; i < 8; i++) r.lane[i] = p[i];
  return r;
}
inline void store(double* p, D8 a) { memcpy(p, &a, sizeof a); }
inline D8 add(D8 a, D8 b) {
  for (int i = 0; i < 8; i++) a.lane[i] += b.lane[i];
  return a;
}
inline D8 sub(D8 a, D8 b) {
  for (int i = 0; i < 8; i++) a.lane[i] -= b.lane[i];
  return a;
}
inline D8 mul(D8 a, D8 b) {
  for (int i = 0; i < 8; i++) a.lane[i] *= b.lane[i];
  return a;
}
inline D8 mul_add(D8 a, D8 b, D8 c) {  // a * b + c, rounded once or twice: levels differ
  for (int i = 0; i < 8; i++) c.lane[i] += a.lane[i] * b.lane[i];
  return c;
}
inline D8 max(D8 a, D8 b) {  // b where either is NaN
  for (int i = 0; i < 8; i++) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
inline D8 round_even(D8 a) {  // of lanes below 2^51
  constexpr double kOnes = 6755399441055744.0;  // 1.5 * 2^52: whole numbers alone are beside it
  for (int i = 0; i < 8; i++) a.lane[i] = (a.lane[i] + kOnes) - kOnes;
  return a;
}
inline D8 scale2(D8 a, D8 n) {  // a * 2^n, n whole; lanes and results are normal
  for (int i = 0; i < 8; i++) {
    double beside = n.lane[i] + 6755399441055744.0;
    uint64_t bits, whole;
    memcpy(&bits, &a.lane[i], 8);
    memcpy(&whole, &beside, 8);
    bits += whole << 52;
    memcpy(&a.lane[i], &bits, 8);
  }
  return a;
}
inline double sum(D8 a) {  // lane i with lane i + 4, then + 2, + 1
  for (int half = 4; half; half /= 2)
    for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
  return a.lane[0];
}
