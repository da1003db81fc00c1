// Instruction sets of the CPU that runs this: code for AVX is compiled on x86-64 only, and chosen at run time.
#pragma once
#if defined(__x86_64__)
#define KTL_X86 1
#include <immintrin.h>
#else
#define KTL_X86 0
#endif
