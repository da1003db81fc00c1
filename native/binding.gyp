{
  "target_defaults": {
    "cflags_cc!": ["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-O3"],
    "cflags_cc": ["-std=c++20", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra",
                  "-Wno-missing-field-initializers", "-Wno-unused-parameter"],
    "conditions": [
      ["OS=='linux'", {
        # A missing symbol fails at require(), as an Error, and not at its first call.
        "ldflags": ["-Wl,-z,now"],
        # dlopen, where it is not part of libc yet.
        "libraries": ["-ldl"]
      }],
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
      "sources": ["<!@(node -p \"require('fs').readdirSync('src/virtual').filter(f => f.endsWith('.cc')).sort().map(f => 'src/virtual/' + f).join(' ')\")"]
    },
    {
      "target_name": "ktl",
      "dependencies": ["virtual"],
      "sources": ["<!@(node -p \"require('fs').readdirSync('src', { recursive: true }).filter(f => f.endsWith('.cc') && !f.startsWith('virtual')).sort().map(f => 'src/' + f).join(' ')\")"],
      "include_dirs": ["<!@(node -p \"require('node-addon-api').include\")"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"]
    }
  ]
}
