#include "../src/virtual/tmem.h"

#include "check.h"
#include "../src/virtual/instruction_descriptor.h"
#include "../src/virtual/smem_descriptor.h"

using namespace ktl;
using namespace ktl::tests;

namespace {

using Registers = uint32_t[kMaxTmemRegisters][32];

// Value that names its cell.
uint32_t mark(uint32_t lane, uint32_t column) { return lane << 16 | column | 0x80000000; }

void fill(TensorMemory& tmem) {
  uint32_t base = 0;
  tmem.allocate(512, base);
  for (uint32_t column = 0; column < 512; ++column) {
    for (uint32_t lane = 0; lane < 128; ++lane) {
      tmem.column(column)[lane] = mark(lane, column);
      tmem.setValid(lane, column, true);
    }
  }
}

struct ShapeCase {
  TmemShape shape;
  uint32_t registers, maxRepeat;
};
constexpr ShapeCase kShapes[] = {
    {TmemShape::Lanes32x32b, 1, 128}, {TmemShape::Lanes16x64b, 1, 128},   {TmemShape::Lanes16x128b, 2, 64},
    {TmemShape::Lanes16x256b, 4, 32}, {TmemShape::Lanes16x32bx2, 1, 128},
};

// Lane and column (relative) of register r of thread t: the fragment tables, inverted into a search over
// cells. A 16x256b block is the accumulator fragment of mma: thread t holds row t/4 (and +8), columns 2(t%4)
// and +1.
bool holds(TmemShape shape, uint32_t r, uint32_t t, uint32_t lane, uint32_t column, uint32_t half) {
  switch (shape) {
    case TmemShape::Lanes32x32b: return lane == t && column == r;
    case TmemShape::Lanes16x64b:
      return lane % 8 == t / 4 && lane / 8 == t % 2 && column / 2 == r && column % 2 == t % 4 / 2;
    case TmemShape::Lanes16x128b:
      return lane % 8 == t / 4 && lane / 8 == r % 2 && column / 4 == r / 2 && column % 4 == t % 4;
    case TmemShape::Lanes16x256b:
      return lane % 8 == t / 4 && lane / 8 == r % 4 / 2 && column / 8 == r / 4 && column % 8 / 2 == t % 4 &&
             column % 2 == r % 2;
    case TmemShape::Lanes16x32bx2: return lane == t % 16 && column == r + (t < 16 ? 0 : half);
  }
  return false;
}

}  // namespace

TEST("tmem", "register maps of every shape") {
  TensorMemory tmem;
  fill(tmem);
  static Registers registers;
  uint32_t valid[kMaxTmemRegisters];
  for (const ShapeCase& c : kShapes) {
    for (uint32_t repeat = 1; repeat <= 8; repeat *= 2) {
      for (const uint32_t first : {0u, 16u}) {
        if (first == 16 && c.shape == TmemShape::Lanes32x32b) continue;
        const TmemTransfer transfer{c.shape, repeat, false, repeat};
        const uint32_t warp = 6;
        tmem.load(transfer, first << 16 | 40, warp, registers, valid);
        CHECK_EQ(transfer.registers(), repeat * c.registers);
        for (uint32_t r = 0; r < transfer.registers(); ++r) {
          CHECK_EQ(valid[r], 0xffffffffu);
          for (uint32_t t = 0; t < 32; ++t) {
            const uint32_t value = registers[r][t];
            const uint32_t lane = (value >> 16 & 0x7fff) - 64 - first, column = (value & 0xffff) - 40;
            CHECK(holds(c.shape, r, t, lane, column, repeat));
          }
        }
      }
    }
    // The widest form stays inside 128 registers and the 512 columns.
    const TmemTransfer widest{c.shape, c.maxRepeat, false, c.maxRepeat};
    CHECK_EQ(widest.registers(), 128u);
    tmem.load(widest, 0, 1, registers, valid);
    CHECK_EQ(registers[0][0], mark(32, 0));
  }
}

TEST("tmem", "a store is the inverse of a load, with validity") {
  Random random{11};
  static Registers out, in;
  uint32_t validOut[kMaxTmemRegisters], validIn[kMaxTmemRegisters];
  for (const ShapeCase& c : kShapes) {
    for (const bool packed : {false, true}) {
      TensorMemory tmem;
      uint32_t base = 0;
      CHECK(tmem.allocate(512, base));
      const uint32_t repeat = 16 / c.registers;
      const TmemTransfer transfer{c.shape, repeat, packed, packed ? 2 * repeat : repeat};
      for (uint32_t warp = 0; warp < 4; ++warp) {
        for (uint32_t r = 0; r < transfer.registers(); ++r) {
          for (uint32_t t = 0; t < 32; ++t) in[r][t] = static_cast<uint32_t>(random.next());
          validIn[r] = static_cast<uint32_t>(random.next());
        }
        tmem.store(transfer, (32 * warp) << 16 | 128, warp, in, validIn);
        tmem.load(transfer, 128, warp, out, validOut);  // the lane quarter follows from the warp
        for (uint32_t r = 0; r < transfer.registers(); ++r) {
          CHECK_EQ(validOut[r], validIn[r]);
          for (uint32_t t = 0; t < 32; ++t) CHECK_EQ(out[r][t], in[r][t]);
        }
      }
    }
  }
}

TEST("tmem", "packing takes the low halves of two columns") {
  TensorMemory tmem;
  fill(tmem);
  static Registers registers;
  uint32_t valid[kMaxTmemRegisters];
  tmem.load({TmemShape::Lanes32x32b, 4, true, 0}, 100, 0, registers, valid);
  CHECK_EQ(registers[0][5], 101u << 16 | 100);
  CHECK_EQ(registers[3][31], 107u << 16 | 106);
}

TEST("tmem", "cells are poison until written") {
  TensorMemory tmem;
  uint32_t base = 0, again = 0;
  CHECK(tmem.allocate(64, base));
  static Registers registers;
  uint32_t valid[kMaxTmemRegisters];
  tmem.load({TmemShape::Lanes32x32b, 2, false, 0}, base, 0, registers, valid);
  CHECK_EQ(registers[1][7], TensorMemory::kPoison);
  CHECK_EQ(valid[0], 0u);
  tmem.column(base)[7] = 1;
  tmem.setValid(7, base, true);
  tmem.load({TmemShape::Lanes32x32b, 1, false, 0}, base, 0, registers, valid);
  CHECK_EQ(valid[0], 1u << 7);
  tmem.release(base, 64);
  CHECK(tmem.allocate(64, again));
  CHECK_EQ(tmem.column(again)[7], TensorMemory::kPoison);
  CHECK(!tmem.isValid(7, again));
}

TEST("tmem", "the allocator") {
  TensorMemory tmem;
  uint32_t a = 9, b = 9, c = 9, d = 9;
  CHECK(tmem.allocate(256, a));
  CHECK(tmem.allocate(128, b));
  CHECK(tmem.allocate(64, c));
  CHECK_EQ(a, 0u);
  CHECK_EQ(b, 256u);
  CHECK_EQ(c, 384u);
  CHECK_FAULT(Code::TmemAccess, "power of two", tmem.allocate(48, d));
  CHECK_FAULT(Code::TmemAccess, "power of two", tmem.allocate(16, d));
  CHECK_FAULT(Code::TmemAccess, "must not grow", tmem.allocate(128, d));
  CHECK_FAULT(Code::TmemAccess, "no live allocation", tmem.release(b, 64));
  CHECK_FAULT(Code::TmemAccess, "no live allocation", tmem.release(b + 32, 128));
  tmem.release(b, 128);
  CHECK(tmem.allocate(64, d));
  CHECK_EQ(d, 256u);
  CHECK_EQ(tmem.leaks().size(), size_t{3});
  tmem.require(0, 256, "test");
  CHECK_FAULT(Code::TmemAccess, "test touches columns 255-256; allocated: 0-255, 256-319, 384-447",
              tmem.require(255, 2, "test"));
  CHECK_FAULT(Code::TmemAccess, "touches columns 330-330", tmem.require(330, 1, "test"));
  tmem.relinquish();
  CHECK_FAULT(Code::TmemAccess, "relinquished", tmem.allocate(32, d));
  TensorMemory full;
  CHECK(full.allocate(512, a));
  CHECK_FAULT(Code::TmemAccess, "already holds 512", full.allocate(32, b));
}

TEST("tmem", "wrong quarters, lanes and columns") {
  TensorMemory tmem;
  uint32_t base = 0;
  CHECK(tmem.allocate(32, base));
  static Registers registers;
  uint32_t valid[kMaxTmemRegisters];
  const auto load = [&](TmemShape shape, uint32_t repeat, uint32_t address, uint32_t warp) {
    tmem.load({shape, repeat, false, 0}, address, warp, registers, valid);
  };
  load(TmemShape::Lanes32x32b, 32, 0, 3);
  load(TmemShape::Lanes32x32b, 32, 96 << 16, 3);
  load(TmemShape::Lanes32x32b, 32, 224u << 16, 7);  // 96 modulo 128
  CHECK_FAULT(Code::TmemAccess, "lane 64 is in the quarter of warps with index 2",
              load(TmemShape::Lanes32x32b, 32, 64 << 16, 3));
  CHECK_FAULT(Code::TmemAccess, "first lane must be 0 of a quarter",
              load(TmemShape::Lanes32x32b, 1, 16 << 16, 0));
  CHECK_FAULT(Code::TmemAccess, "first lane must be 0 or 16", load(TmemShape::Lanes16x64b, 1, 8 << 16, 0));
  CHECK_FAULT(Code::TmemAccess, "touches columns 1-32", load(TmemShape::Lanes32x32b, 32, 1, 0));
  TensorMemory empty;
  CHECK_FAULT(Code::TmemAccess, "allocated: none", empty.load({}, 0, 0, registers, valid));
}

TEST("descriptors", "shared-memory descriptors") {
  const SmemDescriptor d = decodeSm100Descriptor(0x4000404000010040, "A");
  CHECK_EQ(d.start, 0x400u);
  CHECK_EQ(d.leading, 16u);
  CHECK_EQ(d.stride, 1024u);
  CHECK(d.swizzle == Swizzle::B128);
  CHECK_EQ(d.physical(0x80), 0x490u);
  CHECK_EQ(decodeSm90Descriptor(0x4000004000010040).stride, 1024u);
  CHECK(decodeSm90Descriptor(0x4000404000010040).swizzle == Swizzle::B128);
  CHECK(decodeSm90Descriptor(0xc000000000000000).swizzle == Swizzle::B32);
  CHECK(decodeSm100Descriptor(0x2000400000000000, "A").swizzle == Swizzle::B128Atom32);
  CHECK(decodeSm100Descriptor(0x8000400000000000, "A").swizzle == Swizzle::B64);
  CHECK(decodeSm100Descriptor(0xc000400000000000, "A").swizzle == Swizzle::B32);
  CHECK_EQ(decodeSm100Descriptor(0x400e404000010040, "A").baseOffset, 7u);
  CHECK_FAULT(Code::Descriptor, "0x4000004000010040 of B: the constant in bits 46-48 is 0",
              decodeSm100Descriptor(0x4000004000010040, "B"));
  for (const uint64_t bit : {14, 15, 30, 31, 47, 48, 52, 53, 57, 60}) {
    CHECK_FAULT(Code::Descriptor, "must be",
                decodeSm100Descriptor(0x4000404000010040 | uint64_t{1} << bit, "A"));
  }
  for (const uint64_t mode : {3, 5, 7}) {
    CHECK_FAULT(Code::Descriptor, "swizzle mode", decodeSm100Descriptor(uint64_t{1} << 46 | mode << 61, "A"));
  }
  // base_offset moves the start of the XOR pattern.
  SmemDescriptor moved = d;
  moved.start = 0x480;
  moved.baseOffset = 1;
  CHECK_EQ(moved.physical(0), 0x480u);
  CHECK_EQ(moved.physical(0x80), 0x510u);
}

TEST("descriptors", "instruction descriptors") {
  const auto decode = [](uint32_t bits, UmmaKind kind, uint32_t group = 1, bool aInTmem = false) {
    return decodeInstructionDescriptor(bits, kind, group, aInTmem);
  };
  const InstructionDescriptor d = decode(0x08400490, UmmaKind::F16);
  CHECK_EQ(d.m, 128u);
  CHECK_EQ(d.n, 256u);
  CHECK_EQ(d.k, 16u);
  CHECK(d.d == Accumulator::F32 && d.a.format == FloatFormat::BF16 && d.b.format == FloatFormat::BF16);
  CHECK(!d.aMnMajor && !d.bMnMajor && !d.negateA && !d.negateB);
  CHECK_EQ(decode(0x10400490, UmmaKind::F16, 2).m, 256u);
  CHECK_EQ(decode(0x08200490, UmmaKind::F16).n, 128u);
  CHECK(decode(0x08200010, UmmaKind::F16).a.format == FloatFormat::F16);
  CHECK(decode(0x08200910, UmmaKind::TF32).a.format == FloatFormat::TF32);
  CHECK(decode(0x08200010, UmmaKind::F8F6F4).b.format == FloatFormat::E4M3);
  CHECK(decode(0x082004a0, UmmaKind::I8).b.isSigned);
  CHECK(!decode(0x08200020, UmmaKind::I8).b.isSigned);
  CHECK_EQ(decode(0x08200490 | 1 << 16, UmmaKind::F16).bMnMajor, true);
  const uint32_t ok = 0x08200490;
  for (const uint32_t bit : {0, 1, 2, 3, 6, 23, 29, 30, 31}) {
    CHECK_FAULT(Code::Descriptor, "kind::f16", decode(ok | 1u << bit, UmmaKind::F16));
  }
  CHECK_FAULT(Code::Descriptor, "A is f16 and B is bf16", decode(0x08200410, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "D type code is 0", decode(0x08200480, UmmaKind::F16));  // bf16 into f16
  CHECK_FAULT(Code::Descriptor, "D type code is 2", decode(0x082004a0, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "type code of A is 2", decode(0x08200910, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "M is 256, cta_group::1 takes 64 or 128", decode(0x10200490, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "M is 64, cta_group::2 takes 128 or 256",
              decode(0x04200490, UmmaKind::F16, 2));
  CHECK_FAULT(Code::Descriptor, "N is 24, must be a multiple of 16", decode(0x08060490, UmmaKind::F16));
  CHECK_EQ(decode(0x04060490, UmmaKind::F16).n, 24u);
  CHECK_FAULT(Code::Descriptor, "N is 264", decode(0x08420490, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "N is 0", decode(0x08000490, UmmaKind::F16));
  CHECK_FAULT(Code::Descriptor, "N is 40", decode(0x040a04a0, UmmaKind::I8));
  CHECK_FAULT(Code::Descriptor, "A in Tensor Memory is always K-major",
              decode(ok | 1 << 15, UmmaKind::F16, 1, true));
  CHECK_FAULT(Code::Descriptor, "A is MN-major, which e2m1",
              decode(0x08200010 | 5 << 7 | 1 << 15, UmmaKind::F8F6F4));
  CHECK_FAULT(Code::Descriptor, "negation", decode(0x082004a0 | 1 << 13, UmmaKind::I8));
  // Block scaling.
  const InstructionDescriptor mx = decodeInstructionDescriptor(0x70c00030, UmmaKind::MXF8F6F4, 2, false, 32);
  CHECK_EQ(mx.m, 256u);
  CHECK_EQ(mx.n, 256u);
  CHECK_EQ(mx.k, 32u);
  CHECK_EQ(mx.scaleIdA, 3u);
  CHECK_EQ(mx.scaleIdB, 3u);
  CHECK(mx.scale == FloatFormat::UE8M0 && mx.d == Accumulator::F32 && !mx.a.packed);
  const InstructionDescriptor nv = decodeInstructionDescriptor(0x08400480, UmmaKind::MXF4NVF4, 1, false, 16);
  CHECK_EQ(nv.k, 64u);
  CHECK(nv.scale == FloatFormat::UE4M3 && nv.a.packed && nv.b.format == FloatFormat::E2M1);
  CHECK_EQ(decodeInstructionDescriptor(0x48c004a0, UmmaKind::MXF4, 1, false, 32).scaleIdA, 2u);
}
