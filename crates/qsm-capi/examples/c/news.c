/* A publisher and a subscriber in one program, with a loop of its own around poll(2).
 *
 *   cc news.c -lqsm -o news && ./news
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qsm.h"

static void check(qsm_code code, const char *doing) {
  if (code != QSM_OK) {
    fprintf(stderr, "%s: QSM-%d: %s\n", doing, code, qsm_error());
    exit(1);
  }
}

/* Prints a batch; how many messages were in it. */
static unsigned print_batch(const qsm_batch *batch) {
  unsigned messages = 0;
  for (size_t i = 0; i < batch->count; i++) {
    const qsm_item *item = &batch->items[i];
    switch (item->kind) {
    case QSM_KIND_MESSAGE:
      messages++;
      printf("%.*s #%llu: %.*s\n", (int)item->group_length, item->group,
             (unsigned long long)item->number, (int)item->length, (const char *)item->data);
      break;
    case QSM_KIND_LOST:
      printf("messages %llu to %llu are lost\n", (unsigned long long)item->number,
             (unsigned long long)item->last);
      break;
    case QSM_KIND_DROPPED:
      printf("%llu dropped: read faster\n", (unsigned long long)item->last);
      break;
    default:
      printf("something may be missing here (kind %u)\n", (unsigned)item->kind);
    }
  }
  return messages;
}

int main(int argc, char **argv) {
  if (qsm_abi() != QSM_ABI) {
    fprintf(stderr, "libqsm has interface %u, this program was compiled for %u\n", qsm_abi(), QSM_ABI);
    return 1;
  }
  qsm_settings *settings;
  check(qsm_settings_new(&settings), "settings");
  check(qsm_set(settings, "cluster", argc > 1 ? argv[1] : "news"), "cluster");
  check(qsm_set(settings, "interface", "lo"), "interface");
  check(qsm_set(settings, "embedded", "always"), "embedded");
  qsm_node *node;
  check(qsm_start(settings, &node), "start");
  qsm_settings_free(settings);

  const char *groups[] = {"news/world", "news/local"};
  qsm_subscription *news;
  check(qsm_subscribe(node, groups, 2, NULL, &news), "subscribe");
  qsm_publisher *world;
  check(qsm_publisher_new(node, "news/world", &world), "publisher");
  for (int i = 1; i <= 3; i++) {
    char text[32];
    snprintf(text, sizeof text, "story %d", i);
    check(qsm_send(world, text, strlen(text)), "send");
  }

  struct pollfd waiting = {.fd = qsm_subscription_fd(news), .events = POLLIN};
  unsigned messages = 0;
  while (messages < 3 && poll(&waiting, 1, 10000) == 1) {
    qsm_batch batch;
    check(qsm_poll(news, 1000, 0, &batch), "poll");
    messages += print_batch(&batch);
    qsm_release(&batch);
  }

  qsm_flushed flushed;
  check(qsm_shutdown(node, 5000, &flushed), "shutdown");
  printf("%u messages; receivers without everything: %llu\n", messages,
         (unsigned long long)(flushed.unserved + flushed.more + flushed.away));
  qsm_publisher_free(world);
  qsm_subscription_free(news);
  qsm_node_free(node);
  return messages == 3 ? 0 : 1;
}
