// Runs the tests of one group, or of all. Prints one line per test; exit status 1 when a check failed.
#include "check.h"

int main(int count, char** arguments) {
  using namespace ktl::tests;
  const std::string group = count > 1 ? arguments[1] : "";
  uint64_t failedTests = 0, ran = 0;
  for (const Test& test : registry()) {
    if (!group.empty() && test.group != group) continue;
    const uint64_t before = failures, checksBefore = checks;
    try {
      test.body();
    } catch (const ktl::Fault& fault) {
      ++failures;
      std::cout << "unexpected fault " << static_cast<int>(fault.code) << ": " << fault.message << "\n";
    }
    const bool ok = failures == before;
    if (!ok) ++failedTests;
    ++ran;
    std::cout << (ok ? "ok   " : "FAIL ") << test.group << ": " << test.name << " (" << checks - checksBefore
              << " checks)\n";
  }
  std::cout << ran << " tests, " << failedTests << " failed\n";
  return failedTests != 0 || ran == 0 ? 1 : 0;
}
