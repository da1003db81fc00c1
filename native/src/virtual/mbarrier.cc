#include "mbarrier.h"

namespace ktl {

void Mbarrier::require(const char* operation) const {
  if (!live)
    throw Fault{Code::BarrierProtocol, std::string(operation) + " on an mbarrier that was never initialised"};
}

bool Mbarrier::evaluate() {
  if (pending != 0 || tx != 0) return false;
  pending = expected;
  done[completed & 1] = latest;
  latest = 0;
  ++completed;
  return true;
}

void Mbarrier::init(uint32_t count) {
  if (count == 0 || count > kMaxCount)
    throw Fault{Code::BarrierProtocol,
                "mbarrier.init with count " + std::to_string(count) + ", legal are 1 to 1048575"};
  *this = {};
  expected = pending = count;
  live = true;
}

bool Mbarrier::arrive(uint32_t count) {
  require("arrive");
  if (count == 0) return false;
  if (count > pending)
    throw Fault{Code::BarrierProtocol,
                "over-arrival: " + std::to_string(count) + " arrivals on an mbarrier with " + describe()};
  pending -= count;
  return evaluate();
}

void Mbarrier::raise() {
  if (pending == kMaxCount)
    throw Fault{Code::BarrierProtocol, "cp.async.mbarrier.arrive overflows the pending count of an mbarrier with " + describe()};
  ++pending;
}

bool Mbarrier::drop(uint32_t count) {
  require("arrive_drop");
  if (count > expected || count > pending)
    throw Fault{Code::BarrierProtocol,
                "arrive_drop of " + std::to_string(count) + " on an mbarrier with " + describe()};
  expected -= count;
  return arrive(count);
}

bool Mbarrier::expect(int64_t bytes) {
  require("expect_tx");
  if (tx + bytes > kMaxTx)
    throw Fault{Code::BarrierProtocol, "expect_tx of " + std::to_string(bytes) +
                                           " bytes overflows the tx-count of an mbarrier with " + describe()};
  tx += bytes;
  return evaluate();
}

bool Mbarrier::complete(int64_t bytes) {
  require("complete_tx");
  if (tx - bytes < kMinTx)
    throw Fault{Code::BarrierProtocol, "complete_tx of " + std::to_string(bytes) +
                                           " bytes underflows the tx-count of an mbarrier with " +
                                           describe()};
  tx -= bytes;
  return evaluate();
}

uint64_t Mbarrier::word() const {
  const uint64_t field = (uint64_t{1} << 20) - 1;
  return (completed & 1) << 63 | ((uint64_t{0} - pending) & field) << 43 |
         (static_cast<uint64_t>(-tx) & ((uint64_t{1} << 21) - 1)) << 21 |
         ((uint64_t{0} - expected) & field) << 1;
}

std::string Mbarrier::describe() const {
  return "phase " + std::to_string(completed & 1) + ", pending " + std::to_string(pending) + " of " +
         std::to_string(expected) + ", tx " + std::to_string(tx);
}

}  // namespace ktl
