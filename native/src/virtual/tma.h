// The TMA engine's box walk. Every operation is split: `validate…` runs when the instruction issues and
// throws, `execute…` runs when the machine delivers the copy. Coordinates are elements, innermost first,
// `rank` of them.
#pragma once
#include <cstdint>
#include "memory.h"
#include "tensor_map.h"

namespace ktl {

enum class Reduction : uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor };

// Faults: TensorMap (rank of the instruction, box start not on 16 bytes, negative start of a store, operation
// not defined for the element), Misaligned (shared address not on 128 bytes), SharedOutOfBounds.
// Returns the bytes a load completes on its mbarrier (the whole box, whatever is out of bounds).
uint32_t validateTensorLoad(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                            uint32_t sharedAddress, const SharedMemory& shared);
void validateTensorStore(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                         uint32_t sharedAddress, const SharedMemory& shared);
void validateTensorReduce(const TensorMap& map, uint32_t rank, const int32_t* coordinates,
                          uint32_t sharedAddress, const SharedMemory& shared, Reduction operation);

// Global to shared: writes the box (fill outside the tensor) and marks its bytes valid. For a multicast call
// it once per destination. Throws Fault OutOfBounds, naming map, coordinates and address, when an in-bounds
// element lies outside every allocation.
void executeTensorLoad(const TensorMap& map, const int32_t* coordinates, uint32_t sharedAddress,
                       SharedMemory& shared, const GlobalView& global);

// What a store or reduction read from shared memory without anybody having written it.
struct TensorStoreReport {
  uint64_t bytesWritten = 0;
  uint32_t invalidBytes = 0;         // of elements inside the tensor
  uint32_t firstInvalidAddress = 0;  // shared address, meaningful when invalidBytes != 0
};

// Shared to global. Dimension 0 is clipped in 16-byte granules, as on silicon: up to 15 bytes behind
// dims[0] are written. Those bytes never count as invalid.
TensorStoreReport executeTensorStore(const TensorMap& map, const int32_t* coordinates, uint32_t sharedAddress,
                                     const SharedMemory& shared, const GlobalView& global);
// Shared addresses of the 16-byte chunks that such a store or reduction reads.
std::vector<uint32_t> tensorStoreChunks(const TensorMap& map, const int32_t* coordinates,
                                        uint32_t sharedAddress);
TensorStoreReport executeTensorReduce(const TensorMap& map, const int32_t* coordinates,
                                      uint32_t sharedAddress, const SharedMemory& shared,
                                      const GlobalView& global, Reduction operation);

// target[i] = op(target[i], source[i]): the arithmetic of TMA reductions, also for cp.reduce.async.bulk.
// Element-wise atomic, so that CTAs on several host threads may reduce into the same memory. Both 16-byte
// aligned. Throws Fault TensorMap where the operation is not defined for the element.
void reduceElements(TensorElement element, Reduction operation, uint8_t* target, const uint8_t* source,
                    uint64_t count);
bool reductionDefined(TensorElement element, Reduction operation);

}  // namespace ktl
