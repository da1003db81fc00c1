{
  "variables": {
    "libc": "<!(node config.cjs libc)",
    "cxx_runtime": "<!(node config.cjs runtime)",
    "precompiled": "<(SHARED_INTERMEDIATE_DIR)"
  },
  "target_defaults": {
    "cflags_cc!": ["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-O3"],
    "cflags_cc": ["-std=c++20", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra",
                  "-Wno-missing-field-initializers", "-Wno-unused-parameter"],
    "conditions": [
      ["OS=='linux'", {
        # A missing symbol fails at require(), as an Error, and not at its first call.
        "ldflags": ["-Wl,-z,now", "-Wl,--gc-sections", "-s", "-Wl,--version-script=<(module_root_dir)/exports.map"],
        "cflags_cc": ["-include", "<(precompiled)/precompiled.h", "-Winvalid-pch"],
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
      # GCC takes precompiled.h.gch, which lies beside the header that a compilation names, where its options are the same.
      "target_name": "precompiled",
      "type": "none",
      "hard_dependency": 1,
      "conditions": [
        ["OS=='linux'", {
          "copies": [{ "files": ["src/precompiled.h"], "destination": "<(precompiled)" }],
          "actions": [{
            "action_name": "precompile",
            "inputs": ["src/precompiled.h"],
            "outputs": ["<(precompiled)/precompiled.h.gch"],
            # The variables are those of the makefile of the target below, which alone has defines of its own name.
            "action": ["sh", "-c", "$(CXX.target) $(filter-out '-DNODE_GYP_MODULE_NAME=%, $(DEFS_$(BUILDTYPE))) $(CFLAGS_$(BUILDTYPE)) $(filter-out -include %precompiled.h, $(CFLAGS_CC_$(BUILDTYPE))) -x c++-header src/precompiled.h -o <(precompiled)/precompiled.h.gch"]
          }]
        }]
      ]
    },
    {
      # The virtual device, which tools of the tests link too (tests/Makefile).
      "target_name": "virtual",
      "type": "static_library",
      "dependencies": ["precompiled"],
      "cflags": ["-fPIC"],
      "sources": ["<!@(node config.cjs virtual)"]
    },
    {
      "target_name": "ktl",
      "dependencies": ["precompiled", "virtual"],
      "sources": ["<!@(node config.cjs addon)"],
      "include_dirs": ["<!@(node config.cjs include)"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"]
    }
  ]
}
