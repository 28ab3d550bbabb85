#include "engine/execute/fp8_maxima.h"

#include <algorithm>

namespace hawser::train {

void Fp8Maxima::send() {
  if (history_ == nullptr || (sent_ && std::equal(history_, history_ + count_, host_))) return;
  link_->wait_sent();
  std::copy_n(history_, count_, host_);
  link_->send(slot_, host_, bytes());
  sent_ = true;
}

void Fp8Maxima::clear() {
  if (records_) link_->zero(recorded(), bytes());
}

void Fp8Maxima::fetch() {
  if (records_) link_->fetch(host_ + count_, recorded(), bytes());
}

void Fp8Maxima::agree() {
  if (!records_) return;
  all_.set(host_ + count_);
  all_.agree();
}

}  // namespace hawser::train
