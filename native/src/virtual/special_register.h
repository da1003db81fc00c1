// Special registers (PTX ISA 10) that stay fixed for each thread.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace ktl {

struct Warp;

// One component, or a scalar; neither: 0.
struct SpecialRegister {
  std::array<uint32_t, 3> (*vector)(const Warp&, uint32_t lane) = nullptr;
  uint32_t component = 0;
  uint64_t (*scalar)(const Warp&, uint32_t lane) = nullptr;
  bool perLane = false;  // whether lanes differ
  uint64_t value(const Warp& warp, uint32_t lane) const {
    return vector ? vector(warp, lane)[component] : scalar ? scalar(warp, lane) : 0;
  }
};

// By its name in PTX, "%tid.x".
SpecialRegister specialRegister(const std::string& name);

}  // namespace ktl
