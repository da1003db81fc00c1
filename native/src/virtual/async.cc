#include "async.h"
#include <algorithm>

namespace ktl {

uint64_t AsyncEngine::issue(AsyncItem item) {
  item.id = next_++;
  const uint64_t id = item.id;
  item.late = lateLoads_ && item.kind == AsyncKind::Load && chance(8);
  if (!item.late) ++prompt(item.kind);
  items_.push_back(std::make_unique<AsyncItem>(std::move(item)));
  if (order_ == LaunchConfig::Order::Eager) force(id);
  while (items_.size() > kMostPending) deliverOne();
  return id;
}

size_t AsyncEngine::eligible(size_t index) const {
  const AsyncKind kind = items_[index]->kind;
  if (kind != AsyncKind::Tensor && kind != AsyncKind::Warpgroup) return index;
  for (size_t i = 0; i < index; ++i)
    if (items_[i]->kind == kind && items_[i]->queue == items_[index]->queue) return i;
  return index;
}

void AsyncEngine::runAt(size_t index) {
  std::unique_ptr<AsyncItem> item = std::move(items_[index]);
  if (!item->late) --prompt(item->kind);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  // A fault leaves the mark on the item, so that its report can name the issuer.
  const AsyncItem* outer = running_;
  current_.push_back(std::move(item));
  running_ = current_.back().get();
  running_->run();
  current_.pop_back();
  running_ = outer;
}

bool AsyncEngine::deliverOne() {
  if (items_.empty()) return false;
  // Tensor work first and loads after it: what an operand is not waited for, it does not get. Stores last, so
  // that shared memory reused too early is what they copy; and wgmma, which wgmma.wait_group makes happen, behind
  // all of them.
  for (const AsyncKind kind : {AsyncKind::Tensor, AsyncKind::Load, AsyncKind::Copy, AsyncKind::Tmem,
                               AsyncKind::Store, AsyncKind::Warpgroup}) {
    if (prompt(kind) == 0) continue;
    size_t index = 0;
    while (items_[index]->kind != kind || items_[index]->late) ++index;
    runAt(eligible(index));
    return true;
  }
  runAt(items_.size() - 1);
  return true;
}

void AsyncEngine::perhaps() {
  if (order_ != LaunchConfig::Order::Random || items_.empty() || random_() % 4 != 0) return;
  const size_t index = random_() % items_.size();
  if (!items_[index]->late) runAt(eligible(index));
}

void AsyncEngine::force(uint64_t id) {
  for (size_t index; (index = find(id)) < items_.size();) runAt(eligible(index));
}

size_t AsyncEngine::find(uint64_t id) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), id,
                                   [](const auto& item, uint64_t wanted) { return item->id < wanted; });
  return at != items_.end() && (*at)->id == id ? static_cast<size_t>(at - items_.begin()) : items_.size();
}

void AsyncEngine::read(uint64_t id) {
  const size_t index = find(id);
  if (index == items_.size() || items_[index]->wasRead || !items_[index]->read) return;
  items_[index]->wasRead = true;
  items_[index]->read();
}

bool AsyncEngine::pending(uint64_t id) const {
  return find(id) < items_.size();
}

void AsyncEngine::drain(AsyncKind kind) {
  for (size_t i = 0; i < items_.size();) {
    if (items_[i]->kind == kind) {
      runAt(eligible(i));
      i = 0;
    } else {
      ++i;
    }
  }
}

}  // namespace ktl
