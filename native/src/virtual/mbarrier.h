// The mbarrier object (PTX ISA 9.7.13.15; word layout and limits as measured on silicon).
#pragma once
#include <cstdint>
#include <string>
#include "findings.h"

namespace ktl {

struct Mbarrier {
  static constexpr uint32_t kMaxCount = (1u << 20) - 1;
  static constexpr int64_t kMinTx = -((int64_t{1} << 20) - 1), kMaxTx = int64_t{1} << 20;

  uint32_t expected = 0, pending = 0;
  int64_t tx = 0;
  uint64_t completed = 0;  // phases completed; the current phase has parity completed & 1
  bool live = false;
  uint64_t latest = 0;         // modelled time of the last arrival or bytes of this phase
  uint64_t done[2] = {0, 0};   // and of the phase of each parity that completed last

  void at(uint64_t time) { latest = latest < time ? time : latest; }

  // Each throws Fault BarrierProtocol and returns whether the phase completed: it is evaluated after arrive,
  // complete_tx and expect_tx alike.
  void init(uint32_t count);
  bool arrive(uint32_t count);
  bool drop(uint32_t count);
  bool expect(int64_t bytes);
  bool complete(int64_t bytes);
  void raise();  // cp.async.mbarrier.arrive without .noinc

  bool passed(uint32_t parity) const { return (completed & 1) != (parity & 1); }
  // bit 63 phase, 43-62 -pending, 21-41 -tx, 1-20 -expected
  uint64_t word() const;
  std::string describe() const;  // "phase 0, pending 1 of 1, tx 16384"

 private:
  void require(const char* operation) const;
  bool evaluate();
};

}  // namespace ktl
