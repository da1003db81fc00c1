#include "print_format.h"
#include <algorithm>
#include <cstdio>
#include <string_view>

namespace ktl {
namespace {

constexpr int64_t kMostPadding = 4096;  // characters that a width or a precision may ask for

class Formatter {
 public:
  Formatter(const std::string& format, const PrintArguments& arguments, std::string& out)
      : format_(format), arguments_(arguments), out_(out) {}

  int32_t run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(format_, at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) conversion();
    }
    return taken_;
  }

 private:
  // One that is not known is printed as it stands.
  void conversion() {
    const size_t begin = at_++;
    std::string spec = "%";
    spec += any("-+ #0");
    spec += number();
    if (peek() == '.') {
      ++at_;
      spec += '.' + number();
    }
    const std::string size = any("hl");
    const char type = peek();
    if (type != 0) ++at_;
    const bool wide = size.find('l') != std::string::npos;
    if (type == '%') {
      out_ += '%';
    } else if (type == 'd' || type == 'i') {
      print(spec + "ll" + type, wide ? take<int64_t>() : narrow(static_cast<int64_t>(take<int32_t>()), size));
    } else if (type != 0 && std::string_view("uoxX").find(type) != std::string_view::npos) {
      const auto value = wide ? take<uint64_t>() : take<uint32_t>();
      print(spec + "ll" + type, size == "h" ? value & 0xffff : size == "hh" ? value & 0xff : value);
    } else if (type == 'c') {
      print(spec + type, take<int32_t>());
    } else if (type == 'p') {
      print(spec + type, reinterpret_cast<void*>(take<uint64_t>()));
    } else if (type == 's') {
      const std::string text = arguments_.text(take<uint64_t>());
      print(spec + type, text.c_str());
    } else if (type != 0 && std::string_view("eEfFgGaA").find(type) != std::string_view::npos) {
      print(spec + type, take<double>());
    } else {
      out_.append(format_, begin, at_ - begin);
    }
  }

  char peek() const { return at_ < format_.size() ? format_[at_] : 0; }

  std::string any(std::string_view characters) {
    const size_t begin = at_;
    while (peek() != 0 && characters.find(peek()) != std::string_view::npos) ++at_;
    return format_.substr(begin, std::min<size_t>(at_ - begin, 16));
  }

  // A width or a precision, digits or an argument.
  std::string number() {
    if (peek() == '*') {
      ++at_;
      return std::to_string(std::clamp<int64_t>(take<int32_t>(), -kMostPadding, kMostPadding));
    }
    int64_t value = 0;
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') value = std::min(kMostPadding, value * 10 + (format_[at_++] - '0'));
    return at_ == begin ? "" : std::to_string(value);
  }

  static int64_t narrow(int64_t value, const std::string& size) {
    return size == "h" ? static_cast<int16_t>(value) : size == "hh" ? static_cast<int8_t>(value) : value;
  }

  template <class T>
  T take() {
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    arguments_.read(offset_, &value, sizeof value);
    offset_ += sizeof(T);
    ++taken_;
    return value;
  }

  template <class T>
  void print(const std::string& spec, T value) {
    const int length = std::snprintf(nullptr, 0, spec.c_str(), value);
    if (length <= 0) return;
    const size_t before = out_.size();
    out_.resize(before + static_cast<size_t>(length) + 1);
    std::snprintf(out_.data() + before, static_cast<size_t>(length) + 1, spec.c_str(), value);
    out_.pop_back();
  }

  const std::string& format_;
  const PrintArguments& arguments_;
  std::string& out_;
  size_t at_ = 0;
  uint32_t offset_ = 0;
  int32_t taken_ = 0;
};

}  // namespace

int32_t formatPrint(const std::string& format, const PrintArguments& arguments, std::string& out) {
  return Formatter(format, arguments, out).run();
}

}  // namespace ktl
