// A small test harness: groups of tests by name, checks that print where they failed.
#pragma once
#include <cstdint>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>
#include "../src/virtual/findings.h"

namespace ktl::tests {

// IEEE half of the compiler: GCC 12 has the one name on x86-64, and the other on arm64.
#if defined(__aarch64__)
using Half = __fp16;
#else
using Half = _Float16;
#endif

struct Test {
  std::string group, name;
  std::function<void()> body;
};

inline std::vector<Test>& registry() {
  static std::vector<Test> tests;
  return tests;
}

inline uint64_t checks = 0;
inline uint64_t failures = 0;

struct Register {
  Register(const char* group, const char* name, std::function<void()> body) {
    registry().push_back({group, name, std::move(body)});
  }
};

template <class A, class B>
void checkEqual(const A& actual, const B& expected, const char* text, int line,
                const std::string& context = "") {
  ++checks;
  if (actual == expected) return;
  if (++failures > 20) return;
  std::ostringstream out;
  out << "line " << line << ": " << text << ": got " << +actual << ", expected " << +expected;
  if constexpr (std::is_integral_v<A>) out << std::hex << " (0x" << +actual << ", 0x" << +expected << ")";
  std::cout << out.str() << (context.empty() ? "" : " for " + context) << "\n";
}

inline void checkTrue(bool value, const char* text, int line) {
  ++checks;
  if (!value && ++failures <= 20) std::cout << "line " << line << ": not true: " << text << "\n";
}

template <class Body>
void checkFault(Code code, const std::string& part, int line, Body body) {
  ++checks;
  std::string got = "no fault";
  try {
    body();
  } catch (const Fault& fault) {
    if (fault.code == code && fault.message.find(part) != std::string::npos) return;
    got = std::to_string(static_cast<int>(fault.code)) + " " + fault.message;
  }
  ++failures;
  std::cout << "line " << line << ": expected fault " << static_cast<int>(code) << " with \"" << part
            << "\", got " << got << "\n";
}

// SplitMix64: the same numbers everywhere.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() >> 32) % bound; }
  int32_t between(int32_t low, int32_t high) { return low + static_cast<int32_t>(below(high - low + 1)); }
};

}  // namespace ktl::tests

#define KTL_CONCAT_(a, b) a##b
#define KTL_CONCAT(a, b) KTL_CONCAT_(a, b)
#define TEST(group, name)                                                                         \
  static void KTL_CONCAT(test_, __LINE__)();                                                      \
  static const ktl::tests::Register KTL_CONCAT(register_, __LINE__)(group, name,                  \
                                                                    KTL_CONCAT(test_, __LINE__)); \
  static void KTL_CONCAT(test_, __LINE__)()
#define CHECK(value) ktl::tests::checkTrue((value), #value, __LINE__)
#define CHECK_EQ(actual, expected) ktl::tests::checkEqual((actual), (expected), #actual, __LINE__)
#define CHECK_EQ_FOR(actual, expected, context) \
  ktl::tests::checkEqual((actual), (expected), #actual, __LINE__, (context))
#define CHECK_FAULT(code, part, ...) ktl::tests::checkFault((code), (part), __LINE__, [&] { __VA_ARGS__; })
