{
  "variables": {
    "libc": "<!(node config.cjs libc)",
    "cxx_runtime": "<!(node config.cjs runtime)"
  },
  "target_defaults": {
    "cflags_cc!": ["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-O3"],
    "cflags_cc": ["-std=c++20", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra",
                  "-Wno-missing-field-initializers", "-Wno-unused-parameter"],
    "conditions": [
      ["OS=='linux'", {
        # A missing symbol fails at require(), as an Error, and not at its first call.
        "ldflags": ["-Wl,-z,now", "-Wl,--gc-sections", "-s", "-Wl,--version-script=<(module_root_dir)/exports.map"],
        # dlopen, where it is not part of libc yet.
        "libraries": ["-ldl"]
      }],
      # Neither the C++ runtime of the machine that builds nor its glibc is asked of the one that runs.
      ["OS=='linux' and cxx_runtime=='static'", { "ldflags": ["-static-libstdc++"] }],
      ["OS=='linux' and target_arch=='x64' and libc=='glibc'", { "ldflags": ["<!@(node config.cjs wraps)"] }],
      ["OS=='mac'", {
        "xcode_settings": {
          "CLANG_CXX_LANGUAGE_STANDARD": "c++20",
          "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
          "GCC_OPTIMIZATION_LEVEL": "2",
          "MACOSX_DEPLOYMENT_TARGET": "12.0"
        }
      }]
    ]
  },
  "targets": [
    {
      # The virtual device, which tools of the tests link too (tests/Makefile).
      "target_name": "virtual",
      "type": "static_library",
      "cflags": ["-fPIC"],
      "sources": ["<!@(node config.cjs virtual)"]
    },
    {
      "target_name": "ktl",
      "dependencies": ["virtual"],
      "sources": ["<!@(node config.cjs addon)"],
      "include_dirs": ["<!@(node config.cjs include)"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"]
    }
  ]
}
