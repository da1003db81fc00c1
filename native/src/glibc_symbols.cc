// Lets the addon built on a new glibc load on an old one: what glibc 2.29 and later renamed or moved is bound to the
// symbols that glibc has had on x86-64 from the first on. The C++ runtime is linked statically and refers to some of them
// too, hence `--wrap` (binding.gyp), which redirects references of archives as well.
#include <features.h>
#if defined(__x86_64__) && defined(__GLIBC__)
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

// libstdc++ asks it whether atomic operations are needed; glibc has it from 2.32 on. Node has threads.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

// From glibc 2.36 on, and used by std::random_device, which the addon does not use.
extern "C" int getentropy(void*, size_t);
extern "C" __attribute__((visibility("hidden"))) uint32_t __wrap_arc4random() {
  uint32_t value = 0;
  return getentropy(&value, sizeof value) == 0 ? value : 0;
}

#define KTL_FIRST_VERSION(result, name, params, args)                                     \
  extern "C" result first_##name params;                                                  \
  __asm__(".symver first_" #name "," #name "@GLIBC_2.2.5");                               \
  extern "C" __attribute__((visibility("hidden"))) result __wrap_##name params { return first_##name args; }

// libdl and libpthread became parts of libc in 2.34.
KTL_FIRST_VERSION(void*, dlopen, (const char* file, int mode), (file, mode))
KTL_FIRST_VERSION(void*, dlsym, (void* handle, const char* name), (handle, name))
KTL_FIRST_VERSION(char*, dlerror, (), ())
KTL_FIRST_VERSION(int, pthread_create, (pthread_t * thread, const pthread_attr_t* attr, void* (*run)(void*), void* argument),
                  (thread, attr, run, argument))
KTL_FIRST_VERSION(int, pthread_join, (pthread_t thread, void** result), (thread, result))
KTL_FIRST_VERSION(int, pthread_detach, (pthread_t thread), (thread))
KTL_FIRST_VERSION(int, pthread_once, (pthread_once_t * control, void (*run)()), (control, run))
KTL_FIRST_VERSION(int, pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))
KTL_FIRST_VERSION(int, __pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))
KTL_FIRST_VERSION(int, pthread_key_delete, (pthread_key_t key), (key))
KTL_FIRST_VERSION(void*, pthread_getspecific, (pthread_key_t key), (key))
KTL_FIRST_VERSION(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value))
// 2.29 only dropped what sets errno. The algorithm, and so every bit, is that of 2.28.
KTL_FIRST_VERSION(double, exp2, (double x), (x))
KTL_FIRST_VERSION(double, log2, (double x), (x))
#endif
