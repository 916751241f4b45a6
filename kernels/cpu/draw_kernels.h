// The draw of a token from a row of logits: what services/executor/sampling.py defines, without a sort of many.
//
// Included once per level inside that level's namespace, after elementwise_kernels.h. A draw is a function of its row:
// the sums below run in an order that the row alone fixes.
//
// Weights are e^((logit - best) / temperature) in doubles, so the best weighs 1. Two things are not as in numpy, and no
// draw can tell them but one whose uniform is within 1e-12 of the border between two tokens:
// - Candidates below e^-kFaintest weigh nothing: a whole vocabulary of them is below 1e-22.
// - Candidates are found by buckets of their logits, whose weights are summed bucket by bucket, and sorted only within
//   the bucket that the border is in.

constexpr double kFaintest = 64.0;   // in temperatures below the best
constexpr double kFirstGap = 3.0;    // as far below it the first candidates lie; half as much again until they suffice
constexpr int64_t kBuckets = 256;
constexpr int64_t kSortable = 24;    // so few are sorted at once

// e^x for x in [-700, 700], with a relative error below 2e-15; exactly 1 of 0.
inline D8 exp(D8 x) {
  D8 n = round_even(mul(x, set1_double(1.4426950408889634)));
  D8 f = mul_add(n, set1_double(-0x1.62e42feep-1), x);  // exact: the constant ends in zeros
  f = mul_add(n, set1_double(-1.9082149292705877e-10), f);
  // (e^f - 1 - f) / f^2 on [-ln2 / 2, ln2 / 2]
  D8 p = mul_add(set1_double(2.761380686153829e-07), f, set1_double(2.762511557828763e-06));
  p = mul_add(p, f, set1_double(2.4801536388690766e-05));
  p = mul_add(p, f, set1_double(1.9841208732536384e-04));
  p = mul_add(p, f, set1_double(1.3888888905881542e-03));
  p = mul_add(p, f, set1_double(8.333333353729397e-03));
  p = mul_add(p, f, set1_double(4.166666666665136e-02));
  p = mul_add(p, f, set1_double(1.666666666664829e-01));
  p = mul_add(p, f, set1_double(0.5));
  p = mul_add(mul(f, f), p, f);
  return scale2(add(set1_double(1.0), p), n);
}

// What turns logits into weights.
struct Weigher {
  double best, inverse;  // of the temperature; finite, so that the best weighs 1 however cold it is

  Weigher(float largest, double temperature) : best(largest), inverse(std::min(1.0 / temperature, 1e300)) {}

  // Those farther than 100 temperatures below the best, -inf among them, weigh e^-100: as good as nothing.
  D8 operator()(D8 logits) const {
    return exp(max(mul(sub(logits, set1_double(best)), set1_double(inverse)), set1_double(-100.0)));
  }
};

// ---- a row, by blocks of kSearchWidth whose largest is known

struct LogitRow {
  const float* logits;
  int64_t width;
  float* block_best;
  float best;
  bool is_finite;  // all of it

  LogitRow(const float* row, int64_t count, float* room)
      : logits(row), width(count), block_best(room), best(-INFINITY) {
    F16 check = zero();
    for (int64_t i = 0; i < width; i += kSearchWidth) {
      float here = largest(logits + i, std::min(kSearchWidth, width - i), check);
      block_best[i / kSearchWidth] = here;
      best = here > best ? here : best;
    }
    is_finite = !std::isnan(sum(check));
  }

  // Calls each(begin, end) for the blocks that hold a logit of at least `floor`.
  template <class Each>
  void blocks_from(float floor, Each each) const {
    for (int64_t i = 0; i < width; i += kSearchWidth)
      if (block_best[i / kSearchWidth] >= floor) each(i, std::min(width, i + kSearchWidth));
  }

  // The smallest finite float of at least best - gap * temperature; never above the best.
  float floor(double gap, double temperature) const {
    double at = std::max(static_cast<double>(best) - gap * temperature, -3.4028234663852886e38);
    return std::min(best, static_cast<float>(at));
  }
};

// Of all logits but those in blocks that are too faint: 32 lanes apart, the rest of a block to the first 8.
inline double total_weight(const LogitRow& row, const Weigher& weigh, float faintest) {
  D8 sums[4] = {set1_double(0.0), set1_double(0.0), set1_double(0.0), set1_double(0.0)};
  row.blocks_from(faintest, [&](int64_t i, int64_t end) {
    for (; i + 32 <= end; i += 32)
      for (int j = 0; j < 4; j++) sums[j] = add(sums[j], weigh(load_double(row.logits + i + 8 * j)));
    for (; i < end; i += 8) {
      float lanes[8];
      for (int lane = 0; lane < 8; lane++) lanes[lane] = i + lane < end ? row.logits[i + lane] : -INFINITY;
      sums[0] = add(sums[0], weigh(load_double(lanes)));
    }
  });
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

// ---- candidates

// Those of at least `floor`, by id; returns how many.
inline int64_t gather(const LogitRow& row, float floor, Candidate* out) {
  int64_t count = 0;
  row.blocks_from(floor, [&](int64_t i, int64_t end) {
    for (; i < end; i += 16) {
      int here = static_cast<int>(std::min<int64_t>(16, end - i));
      F16 lanes = here == 16 ? load(row.logits + i) : first_or(load_first(row.logits + i, here), here, -INFINITY);
      for (uint32_t bits = at_least(lanes, set1(floor)); bits; bits &= bits - 1) {
        int64_t id = i + __builtin_ctz(bits);
        out[count].logit = row.logits[id];
        out[count++].id = static_cast<int32_t>(id);
      }
    }
  });
  return count;
}

inline void weigh_all(Candidate* candidates, int64_t count, const Weigher& weigh) {
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t here = std::min<int64_t>(8, count - i);
    float logits[8] = {};
    double weights[8];
    for (int64_t lane = 0; lane < here; lane++) logits[lane] = candidates[i + lane].logit;
    store(weights, weigh(load_double(logits)));
    for (int64_t lane = 0; lane < here; lane++) candidates[i + lane].weight = weights[lane];
  }
}

// The first candidates in order.
struct Prefix {
  int64_t count;
  double weight;
  int32_t last;  // id of the last of them
};

// The end of a prefix: the first candidate with which it has so many, or so much weight.
struct Border {
  int64_t count;
  double weight;
  bool is_reached(int64_t count_now, double weight_now) const { return count_now >= count || weight_now >= weight; }
};

// Candidates that stand by id, spread by their logits: all of a bucket come before all of the next.
struct Buckets {
  float highest, lowest;
  double scale = 0.0;
  int64_t counts[kBuckets] = {};
  double weights[kBuckets] = {};

  Buckets(const Candidate* from, int64_t count) : highest(from[0].logit), lowest(from[0].logit) {
    for (int64_t i = 1; i < count; i++) {
      highest = std::max(highest, from[i].logit);
      lowest = std::min(lowest, from[i].logit);
    }
    if (are_equal()) return;
    scale = static_cast<double>(kBuckets) / (static_cast<double>(highest) - static_cast<double>(lowest));
    for (int64_t i = 0; i < count; i++) {
      int64_t bucket = of(from[i]);
      counts[bucket]++;
      weights[bucket] += from[i].weight;
    }
  }

  bool are_equal() const { return highest == lowest; }

  // The highest is in the first, the lowest in the last: each is smaller than the whole.
  int64_t of(const Candidate& c) const {
    const double below = static_cast<double>(highest) - static_cast<double>(c.logit);
    return std::min(kBuckets - 1, static_cast<int64_t>(below * scale));
  }

  // Adds the buckets before the one that the border is in, which it returns.
  int64_t before(const Border& border, Prefix& found) const {
    int64_t bucket = 0;
    while (bucket < kBuckets - 1 && !border.is_reached(found.count + counts[bucket], found.weight + weights[bucket])) {
      found.count += counts[bucket];
      found.weight += weights[bucket++];
    }
    return bucket;
  }

  // Copies a bucket, still by id; returns how many it holds.
  int64_t take(int64_t bucket, const Candidate* from, int64_t count, Candidate* out) const {
    int64_t taken = 0;
    for (int64_t i = 0; i < count; i++) {
      const Candidate c = from[i];  // out may be from
      if (of(c) == bucket) out[taken++] = c;
    }
    return taken;
  }
};

// By logit, largest first; equal ones stay as they are.
inline void sort_few(Candidate* few, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    const Candidate moving = few[i];
    int64_t place = i;
    for (; place > 0 && few[place - 1].logit < moving.logit; place--) few[place] = few[place - 1];
    few[place] = moving;
  }
}

// Some candidates, by id, and whether there are no others.
struct Look {
  const Candidate* candidates;
  int64_t count;
  Candidate* room;  // for as many
  bool is_complete;
  Buckets buckets;

  Look(const Candidate* found, int64_t found_count, Candidate* free, bool complete)
      : candidates(found), count(found_count), room(free), is_complete(complete), buckets(found, found_count) {}

  // The first candidates in order, up to `most` or so much weight. At least one of them.
  Prefix to(int64_t most, double weight) const {
    const Border border{std::max<int64_t>(1, std::min(most, count)), weight};
    Prefix found{0, 0.0, -1};
    if (buckets.are_equal() || count <= kSortable) return end(border, found, candidates, count, buckets.are_equal());
    int64_t left = buckets.take(buckets.before(border, found), candidates, count, room);
    for (;;) {
      const Buckets finer(room, left);
      if (finer.are_equal() || left <= kSortable) return end(border, found, room, left, finer.are_equal());
      left = finer.take(finer.before(border, found), room, left, room);
    }
  }

  int64_t count_from(double weight) const {
    int64_t from = 0;
    for (int64_t i = 0; i < count; i++) from += candidates[i].weight >= weight;
    return from;
  }

 private:
  // Goes through the candidates that the border is among; where it is past them by rounding, it is at their end.
  Prefix end(const Border& border, Prefix found, const Candidate* from, int64_t left, bool are_equal) const {
    if (!are_equal) {  // of equal ones the ids are their order
      memmove(room, from, static_cast<size_t>(left) * sizeof(Candidate));
      sort_few(room, left);
      from = room;
    }
    for (int64_t i = 0; i < left; i++) {
      found = {found.count + 1, found.weight + from[i].weight, from[i].id};
      if (border.is_reached(found.count, found.weight)) break;
    }
    return found;
  }
};

// ---- the draw

constexpr int64_t kAll = INT64_MAX;

// What the filters keep, if these candidates suffice to know it: else its count is 0. `total`: of all candidates, read
// where top_k is kAll. Where no filter is set, kAll of them.
inline Prefix kept_of(const Look& look, const Draw& draw, int64_t top_k, double total) {
  const Prefix unknown{0, 0.0, -1};
  if (look.count < top_k && top_k != kAll && !look.is_complete) return unknown;
  Prefix kept = top_k == kAll ? Prefix{kAll, total, -1} : look.to(top_k, INFINITY);
  bool is_known = top_k != kAll;
  if (draw.top_p < 1.0) {
    const double needed = draw.top_p * kept.weight;
    const Prefix reached = look.to(kept.count, needed);
    if (reached.weight >= needed) kept = reached, is_known = true;
  }
  if (draw.min_p > 0.0) {
    const int64_t heavy = look.count_from(draw.min_p);
    if (heavy < look.count && heavy < kept.count) kept = look.to(heavy, INFINITY), is_known = true;
  }
  if (is_known) return kept;
  if (look.is_complete) return look.to(kAll, INFINITY);
  return draw.top_p < 1.0 || draw.min_p > 0.0 ? unknown : kept;
}

// The drawn token; -1 where more candidates have to be seen.
inline int32_t drawn_of(const Look& look, const Draw& draw, int64_t top_k, double total) {
  const Prefix kept = kept_of(look, draw, top_k, total);
  if (kept.count == 0) return -1;
  const double target = draw.uniform * kept.weight;
  const Prefix reached = look.to(kept.count, std::nextafter(target, INFINITY));
  return reached.weight > target || kept.count <= look.count ? reached.last : -1;
}

inline int32_t first_of_best(const LogitRow& row) {
  int64_t id = 0;
  while (row.block_best[id / kSearchWidth] != row.best) id += kSearchWidth;
  while (row.logits[id] != row.best) id++;
  return static_cast<int32_t>(id);
}

inline int32_t draw(const float* logits, int64_t width, bool is_masked, const Draw& draw, const DrawRoom& room) {
  const LogitRow row(logits, width, room.block_best);
  if (is_masked ? !std::isfinite(row.best) : !row.is_finite) return -1;
  if (draw.temperature == 0.0) return first_of_best(row);
  const Weigher weigh(row.best, draw.temperature);
  const int64_t top_k = draw.top_k > 0 && draw.top_k < width ? draw.top_k : kAll;
  // Of top-p, the mass that it is a share of has no lower end of min-p's.
  const bool min_p_ends = draw.min_p > 0.0 && (top_k == kAll || draw.top_p >= 1.0);
  const bool needs_total = top_k == kAll && (draw.top_p < 1.0 || !min_p_ends);
  const double total = needs_total ? total_weight(row, weigh, row.floor(kFaintest, draw.temperature)) : 0.0;
  const double last_gap = min_p_ends ? std::min(kFaintest, 1e-6 - std::log(draw.min_p)) : kFaintest;
  for (double gap = needs_total || top_k != kAll ? kFirstGap : last_gap;; gap *= 1.5) {
    gap = std::min(gap, last_gap);
    const int64_t count = gather(row, row.floor(gap, draw.temperature), room.candidates);
    weigh_all(room.candidates, count, weigh);
    const Look look(room.candidates, count, room.candidates + width, gap == last_gap);
    const int32_t drawn = drawn_of(look, draw, top_k, total);
    if (drawn >= 0) return drawn;
  }
}
