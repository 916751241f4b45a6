// How the kinds of packed weights are read (see linear.h for layouts): a format for each.
//
// Included once per level inside that level's namespace, after its simd header.

// How a format's weights are read: by single inputs, by pairs of inputs, or by groups.
struct Singly {};
struct Paired {};
struct Grouped {};

// ---- float kinds

struct F32Format {
  using Reading = Singly;
  static constexpr int64_t kStepBytes = 64;
  static F16 weights(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Format {
  using Reading = Singly;
  static constexpr int64_t kStepBytes = 32;
  static F16 weights(const uint8_t* p) { return load_half(reinterpret_cast<const uint16_t*>(p)); }
};

struct BF16Format {
  using Reading = Paired;
};

// ---- quantized kinds whose weight is scale * (unsigned byte) + offset: one group at a time

struct Group {
  B64 bytes[8];  // inputs 4c .. 4c + 3 of 16 outputs
  F16 scale, offset;
};

inline void unpack_nibbles(const uint8_t* p, B64 (&bytes)[8]) {
  for (int c = 0; c < 4; c++) {
    B64 both = load_bytes(p + 64 * c);
    bytes[c] = low_nibbles(both);
    bytes[4 + c] = high_nibbles(both);
  }
}
inline F16 halves(const uint8_t* p) { return load_half(reinterpret_cast<const uint16_t*>(p)); }

// Input i of a group, of 16 outputs, as it is stored.
inline F16 nibbles_of(const uint8_t* p, unsigned i) {
  return bits_of(load_bytes(p + i % 16 / 4 * 64), i % 4 * 8 + i / 16 * 4, 15);
}
inline F16 bytes_of(const uint8_t* p, unsigned i) { return bits_of(load_bytes(p + i / 4 * 64), i % 4 * 8, 255); }

struct Q4_0Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ4_0GroupBytes, kGroups = 1;
  static constexpr bool kSmall = true;    // no byte is above 127
  static constexpr bool kRaised = false;  // whether the offset is -128 times the scale
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = halves(p + kNibbleBytes);
    group.offset = mul(group.scale, set1(-8));
    return group;
  }
  static F16 input(const Group& group, const uint8_t* p, unsigned i) {
    return fma(group.scale, nibbles_of(p, i), group.offset);
  }
};
struct Q4_1Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ4_1GroupBytes, kGroups = 1;
  static constexpr bool kSmall = true, kRaised = false;
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = halves(p + kNibbleBytes);
    group.offset = halves(p + kNibbleBytes + kHalves);
    return group;
  }
  static F16 input(const Group& group, const uint8_t* p, unsigned i) {
    return fma(group.scale, nibbles_of(p, i), group.offset);
  }
};
struct Q8_0Format {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = 0, kGroupBytes = kQ8_0GroupBytes, kGroups = 1;
  static constexpr bool kSmall = false, kRaised = true;
  static Group unpack(const uint8_t*, const uint8_t* p) {
    Group group;
    for (int c = 0; c < 8; c++) group.bytes[c] = load_bytes(p + 64 * c);
    group.scale = halves(p + 512);
    group.offset = mul(group.scale, set1(-128));
    return group;
  }
  static F16 input(const Group& group, const uint8_t* p, unsigned i) {
    return fma(group.scale, bytes_of(p, i), group.offset);
  }
};
struct Q4_KFormat {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = kQ4_KHeadBytes, kGroupBytes = kQ4_KGroupBytes, kGroups = 8;
  static constexpr bool kSmall = true, kRaised = false;
  static Group unpack(const uint8_t* head, const uint8_t* p) {
    Group group;
    unpack_nibbles(p, group.bytes);
    group.scale = mul(halves(head), load_u8(p + kNibbleBytes));
    group.offset = mul(sub(zero(), halves(head + kHalves)), load_u8(p + kNibbleBytes + 16));
    return group;
  }
  static F16 input(const Group& group, const uint8_t* p, unsigned i) {
    return fma(group.scale, nibbles_of(p, i), group.offset);
  }
};

// ---- Q6_K: bytes that are 32 too large, a scale for each half of a group

struct HalvedGroup {
  B64 bytes[8];
  F16 scale[2];
};

struct Q6_KFormat {
  using Reading = Grouped;
  static constexpr int64_t kHeadBytes = kQ6_KHeadBytes, kGroupBytes = kQ6_KGroupBytes, kGroups = 8;

  static HalvedGroup unpack(const uint8_t* head, const uint8_t* p) {
    HalvedGroup group;
    unpack_nibbles(p, group.bytes);
    F16 scale = halves(head);
    for (int half = 0; half < 2; half++) {
      B64 high = load_bytes(p + kNibbleBytes + 64 * half);
      B64* bytes = group.bytes + 4 * half;
      bytes[0] = combine(bytes[0], two_bits_up<0>(high));
      bytes[1] = combine(bytes[1], two_bits_up<2>(high));
      bytes[2] = combine(bytes[2], two_bits_up<4>(high));
      bytes[3] = combine(bytes[3], two_bits_up<6>(high));
      group.scale[half] = mul(scale, load_s8(p + kNibbleBytes + 128 + 16 * half));
    }
    return group;
  }
  static F16 input(const HalvedGroup& group, const uint8_t* p, unsigned i) {
    F16 high = bits_of(load_bytes(p + kNibbleBytes + i / 16 * 64), i % 4 * 8 + i % 16 / 4 * 2, 3);
    return mul(group.scale[i / 16], fma(high, set1(16), sub(nibbles_of(p, i), set1(32))));
  }
};
