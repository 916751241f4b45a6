// Memory for packed weights: large regions that segments share, on huge pages where the system has them. A step reads
// all weights once, far more than the pages of 4 KiB that a processor can keep in mind.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace headway {

// Zeroed, aligned to 64 bytes. Throws std::bad_alloc.
std::shared_ptr<uint8_t> weight_memory(size_t bytes);

}  // namespace headway
