// Prices by C++: handles and batches that free themselves.
//
//   c++ -std=c++17 quotes.cpp -lqsm -o quotes && ./quotes
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "qsm.h"

namespace {

void check(qsm_code code) {
  if (code != QSM_OK) throw std::runtime_error(qsm_error());
}

template <auto Free> struct Freed {
  template <class T> void operator()(T *handle) const { Free(handle); }
};
using Settings = std::unique_ptr<qsm_settings, Freed<qsm_settings_free>>;
using Node = std::unique_ptr<qsm_node, Freed<qsm_node_free>>;
using Subscription = std::unique_ptr<qsm_subscription, Freed<qsm_subscription_free>>;
using Publisher = std::unique_ptr<qsm_publisher, Freed<qsm_publisher_free>>;

struct Batch : qsm_batch {
  explicit Batch(const Subscription &from) : qsm_batch{} { check(qsm_poll(from.get(), 1000, 10000, this)); }
  Batch(const Batch &) = delete;
  Batch &operator=(const Batch &) = delete;
  ~Batch() { qsm_release(this); }
  const qsm_item *begin() const { return items; }
  const qsm_item *end() const { return items + count; }
};

struct Quote {
  char symbol[8];
  double price;
};

Node start(const char *cluster) {
  qsm_settings *raw;
  check(qsm_settings_new(&raw));
  Settings settings(raw);
  check(qsm_set(raw, "cluster", cluster));
  check(qsm_set(raw, "interface", "lo"));
  check(qsm_set(raw, "embedded", "always"));
  qsm_node *node;
  check(qsm_start(raw, &node));
  return Node(node);
}

int run(const char *cluster) {
  Node node = start(cluster);
  const char *group = "quotes";
  qsm_subscription *subscription;
  check(qsm_subscribe(node.get(), &group, 1, nullptr, &subscription));
  Subscription quotes(subscription);
  qsm_publisher *publisher;
  check(qsm_publisher_new(node.get(), group, &publisher));
  Publisher desk(publisher);

  const Quote sent[] = {{"EUR", 1.0842}, {"CHF", 1.1305}};
  for (const Quote &quote : sent) check(qsm_send(desk.get(), &quote, sizeof quote));

  unsigned read = 0;
  while (read < 2) {
    Batch batch(quotes);
    if (batch.count == 0) throw std::runtime_error("nothing came for ten seconds");
    for (const qsm_item &item : batch) {
      if (item.kind != QSM_KIND_MESSAGE) continue;
      Quote quote;
      std::memcpy(&quote, item.data, sizeof quote);
      std::cout << quote.symbol << " " << quote.price << "\n";
      read++;
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(argc > 1 ? argv[1] : "quotes");
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
