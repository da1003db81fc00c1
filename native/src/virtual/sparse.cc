#include "sparse.h"

#include <algorithm>
#include <cmath>

#include "findings.h"

namespace ktl {

void refuseMetadata(const Sparsity& sparsity, uint32_t bits, uint32_t row, uint32_t chunk) {
  std::string text = "0b0000";
  for (uint32_t i = 0; i < 4; ++i) text[5 - i] = static_cast<char>('0' + (bits >> i & 1));
  throw Fault{Code::SparseMetadata,
              "the metadata of row " + std::to_string(row) + " of A, columns " + std::to_string(chunk * sparsity.chunk) + " to " +
                  std::to_string(chunk * sparsity.chunk + sparsity.chunk - 1) + ", is " + text + ", expected " +
                  (sparsity.chunk == 2                        ? "0b0100 or 0b1110"
                   : sparsity.order == Sparsity::Order::Any ? "two different indices"
                                                            : "two different indices, the lower one in the lower bits")};
}

uint32_t readMetadata(const uint32_t* lanes, uint32_t chunks, bool narrow, uint32_t selector, RowMetadata* rows) {
  const uint32_t count = chunks / 4;
  uint32_t used = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (lane % 4 / count != selector) continue;
    used |= 1u << lane;
    const uint32_t own = lane % count, row = lane / 4;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint8_t bits = lanes[lane] >> (4 * i) & 15;
      if (narrow)
        rows[row + own % 2 * 8][own / 2 * 8 + i] = bits;
      else
        rows[row + i / 4 * 8][own * 4 + i % 4] = bits;
    }
  }
  return used;
}

void multiplySparse(const UmmaBlock& block, const uint8_t* kept, const std::function<void(const UmmaBlock&)>& run) {
  std::vector<size_t> wild;  // elements of B that no zero cancels
  const size_t own = size_t{block.columns} * block.depth;
  for (uint32_t step = 0; step < block.steps; ++step)
    for (size_t i = 0; i < own; ++i)
      if (!std::isfinite(block.b[step * size_t{block.bStep} + i])) wild.push_back(step * own + i);
  if (wild.empty()) return run(block);

  const size_t cells = size_t{block.columns} * kColumnPitch;
  const std::vector<uint32_t> before(block.d, block.d + cells);
  std::vector<uint32_t> d(cells);
  std::vector<float> all(block.steps * own), b;
  for (uint32_t step = 0; step < block.steps; ++step) std::copy_n(block.b + step * size_t{block.bStep}, own, &all[step * own]);
  UmmaBlock one = block;
  one.bStep = static_cast<uint32_t>(own);
  for (uint32_t group = 0; group < block.groups; ++group)
    for (uint32_t row = 0; row < 16; ++row) {
      b = all;
      for (const size_t at : wild) {
        const size_t step = at / own, k = at % block.depth;
        if (!kept[step * block.aStep + (size_t{group} * block.depth + k) * 16 + row]) b[at] = 0;
      }
      d = before;
      one.b = b.data();
      one.d = d.data();
      run(one);
      const uint32_t lane = block.lanes[group] + row;
      for (uint32_t column = 0; column < block.columns; ++column)
        block.d[size_t{column} * kColumnPitch + lane] = d[size_t{column} * kColumnPitch + lane];
    }
}

}  // namespace ktl
