// Fuzzes the virtual device: whatever PTX, memory, parameters and launch it is given, it answers with findings.
//
//   fuzz_ptx [--mutants N] [--seed S] [--first I] [--show] CORPUS...
//
// CORPUS: PTX modules to mutate. Mutant I of seed S is always the same one; --first I --mutants 1 --show prints it. Ends
// with status 1 on an exception that is no finding, and with the sanitizers' status on their reports; both, and a mutant
// that takes longer than kSeconds, print which one it was.
#include <sys/time.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include "../src/virtual/loader.h"
#include "fuzz.h"

namespace {

using namespace ktl;
using namespace ktl::fuzz;

constexpr int kSeconds = 20;  // of the processor, for one mutant
constexpr uint64_t kMemoryBytes = 1 << 20;

uint64_t seed = 1, current = 0;

// What a signal handler may do.
void say(const char* what) {
  char text[200];
  const int length = std::snprintf(text, sizeof text, "\nmutant %llu of seed %llu: %s; --seed %llu --first %llu --mutants 1 --show prints it\n",
                                   static_cast<unsigned long long>(current), static_cast<unsigned long long>(seed), what,
                                   static_cast<unsigned long long>(seed), static_cast<unsigned long long>(current));
  if (write(2, text, static_cast<size_t>(length)) < 0) _exit(4);
}

void onHang(int) {
  say("it does not end");
  _exit(3);
}
[[maybe_unused]] void onCrash(int signal) {
  say("the process crashed");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
[[maybe_unused]] void onReport() { say("a sanitizer reports this"); }

void watch(int seconds) {
  const itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

Mutant makeMutant(uint64_t index, const std::vector<std::string>& corpus) {
  Random random{seed * 0x9e3779b97f4a7c15u + index};
  random.next();
  return index % 4 == 3 && !corpus.empty() ? textMutant(random, corpus) : formMutant(random, index / 4 * 3 + index % 4);
}

enum Outcome { kRefused, kNotLaunched, kStopped, kFinished };
constexpr const char* kOutcomes[] = {"refused when loaded", "refused when launched", "stopped by a finding", "ran to the end"};

Outcome run(const Mutant& mutant, std::map<int, uint64_t>& codes) {
  const auto memory = std::make_shared<GlobalMemory>(kMemoryBytes);
  memory->allocate(kBufferBytes, kBuffer, 0);
  memory->write(kBuffer, mutant.memory.data(), mutant.memory.size());
  Outcome outcome = kRefused;
  try {
    const LoadedModule module(mutant.ptx, {mutant.target, 2}, memory);
    outcome = kNotLaunched;
    LaunchConfig config = mutant.config;
    checkLaunch(module.module(), mutant.entry, config);
    const LaunchResult result = module.launch(mutant.entry, config, module.view());
    outcome = kFinished;
    for (const Finding& finding : result.findings) {
      ++codes[static_cast<int>(finding.code)];
      if (finding.fatal) outcome = kStopped;
    }
  } catch (const Fault& fault) {
    ++codes[static_cast<int>(fault.code)];
  }
  return outcome;
}

std::string readFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << "\n";
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every opcode of the table is reached: at least one of its instructions is loaded.
bool coverOpcodes() {
  std::map<int, uint64_t> codes;
  uint64_t missing = 0;
  const std::vector<std::string> opcodes = tableOpcodes();
  for (const std::string& opcode : opcodes) {
    bool reached = false;
    for (uint64_t attempt = 0; attempt < 3000 && !reached; ++attempt) {
      Random random{seed + attempt};
      watch(kSeconds);
      reached = run(opcodeMutant(random, opcode), codes) != kRefused;
    }
    if (reached) continue;
    std::cout << "no instruction of " << opcode << " was loaded\n";
    ++missing;
  }
  std::cout << opcodes.size() - missing << " of " << opcodes.size() << " opcodes reached\n";
  return missing == 0;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_set_death_callback(void (*)());
extern "C" const char* __asan_default_options() { return "hard_rss_limit_mb=3000:detect_stack_use_after_return=0:quarantine_size_mb=16"; }
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

int main(int argc, char** argv) {
  uint64_t mutants = 5000, first = 0;
  bool show = false;
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 0) : 0; };
    if (option == "--mutants") mutants = number();
    else if (option == "--seed") seed = number();
    else if (option == "--first") first = number();
    else if (option == "--show") show = true;
    else corpus.push_back(readFile(argv[i]));
  }
  std::signal(SIGPROF, onHang);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(onReport);
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, onCrash);
#endif
  const auto began = std::chrono::steady_clock::now();
  std::map<int, uint64_t> codes;
  uint64_t outcomes[4] = {};
  if (first == 0 && !coverOpcodes()) return 1;
  for (current = first; current < first + mutants; ++current) {
    const Mutant mutant = makeMutant(current, corpus);
    if (show) std::cout << mutant.ptx << std::flush;
    watch(kSeconds);
    try {
      ++outcomes[run(mutant, codes)];
    } catch (const std::exception& error) {
      say(error.what());
      return 1;
    }
  }
  watch(0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::cout << mutants << " mutants of seed " << seed << " from " << first << ", none did harm:";
  for (size_t i = 0; i < std::size(outcomes); ++i) std::cout << (i ? ", " : " ") << outcomes[i] << " " << kOutcomes[i];
  std::cout << "\nfindings:";
  for (const auto& [code, count] : codes) std::cout << " KTL" << code << " " << count;
  std::cout << "\n" << static_cast<uint64_t>(seconds) << " s, " << static_cast<uint64_t>(static_cast<double>(mutants) / seconds) << " a second\n";
  return 0;
}
