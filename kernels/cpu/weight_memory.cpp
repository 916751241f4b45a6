// Regions of memory, handed out from front to back, and given back when nothing in them is used any more.
#include "weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

#if defined(__SANITIZE_ADDRESS__)

// Each by itself, so that the sanitizer can guard what lies around it.
std::shared_ptr<uint8_t> headway::weight_memory(size_t bytes) {
  constexpr std::align_val_t kLine{64};
  return std::shared_ptr<uint8_t>(new (kLine) uint8_t[bytes](), [](uint8_t* p) { operator delete[](p, kLine); });
}

#else

namespace headway {
namespace {

constexpr size_t kLine = 64, kHugePage = size_t{2} << 20, kRegion = size_t{32} << 20;

size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

class Region {
 public:
  explicit Region(size_t bytes) : size_(rounded_up(bytes, kHugePage)), mapped_(size_ + kHugePage) {
    void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<uint8_t*>(at);
    uintptr_t address = reinterpret_cast<uintptr_t>(at);
    begin_ = start_ + (rounded_up(address, kHugePage) - address);
#if defined(MADV_HUGEPAGE)
    madvise(begin_, size_, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
#endif
  }
  ~Region() { munmap(start_, mapped_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  size_t left() const { return size_ - used_; }
  uint8_t* take(size_t bytes) {
    uint8_t* taken = begin_ + used_;
    used_ += bytes;
    return taken;
  }

 private:
  size_t size_, mapped_, used_ = 0;
  uint8_t *start_, *begin_;
};

}  // namespace

std::shared_ptr<uint8_t> weight_memory(size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Region> current;
  bytes = rounded_up(bytes, kLine);
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Region> region = current.lock();
  if (!region || region->left() < bytes) {
    region = std::make_shared<Region>(std::max(bytes, kRegion));
    current = region;
  }
  return std::shared_ptr<uint8_t>(region, region->take(bytes));
}

}  // namespace headway

#endif
