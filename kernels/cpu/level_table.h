// The table of a level's functions; included last in that level's namespace.

constexpr Ops table(const char* name) {
  return {name,     prepare, linear,   unpack_rows, rms_norm,   add,
          silu_mul, rope,    write_kv, attention,   query_tile, attention_scratch,
          argmax,   draw};
}
