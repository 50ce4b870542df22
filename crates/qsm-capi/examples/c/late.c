/* A keeper of a group's last messages, and a subscriber that comes later and begins with them.
 *
 *   cc late.c -lqsm -o late && ./late
 */
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

/* Prints a batch; whether the past of the group was in it to its end. */
static int print_batch(const qsm_batch *batch) {
  int joined = 0;
  for (size_t i = 0; i < batch->count; i++) {
    const qsm_item *item = &batch->items[i];
    switch (item->kind) {
    case QSM_KIND_MESSAGE:
      printf("#%llu: %.*s\n", (unsigned long long)item->number, (int)item->length,
             (const char *)item->data);
      break;
    case QSM_KIND_NOT_KEPT:
      printf("#%llu to #%llu are not kept\n", (unsigned long long)item->number,
             (unsigned long long)item->last);
      break;
    case QSM_KIND_JOINED:
      printf("%llu kept, %llu missing; now live\n", (unsigned long long)item->number,
             (unsigned long long)item->last);
      joined = 1;
      break;
    default:
      printf("something may be missing here (kind %u)\n", (unsigned)item->kind);
    }
  }
  return joined;
}

int main(int argc, char **argv) {
  qsm_settings *settings;
  check(qsm_settings_new(&settings), "settings");
  check(qsm_set(settings, "cluster", argc > 1 ? argv[1] : "late"), "cluster");
  check(qsm_set(settings, "interface", "lo"), "interface");
  check(qsm_set(settings, "embedded", "always"), "embedded");
  qsm_node *node;
  check(qsm_start(settings, &node), "start");
  qsm_settings_free(settings);

  const char *groups[] = {"news"};
  qsm_keeper *keeper;
  check(qsm_keep(node, groups, 1, NULL, &keeper), "keep");
  qsm_publisher *news;
  check(qsm_publisher_new(node, "news", &news), "publisher");
  for (int i = 1; i <= 5; i++) {
    char text[32];
    snprintf(text, sizeof text, "story %d", i);
    check(qsm_send(news, text, strlen(text)), "send");
  }
  qsm_keeping kept;
  do {
    check(qsm_kept(keeper, &kept), "kept");
  } while (kept.messages < 5);

  qsm_past past = {.last = 2};
  qsm_subscription *late;
  check(qsm_subscribe_past(node, groups, 1, &past, NULL, &late), "subscribe");
  int joined = 0;
  while (!joined) {
    qsm_batch batch;
    check(qsm_poll(late, 1000, 10000, &batch), "poll");
    joined = print_batch(&batch);
    qsm_release(&batch);
  }

  char position[256];
  qsm_position(late, position, sizeof position);
  printf("to go on behind it: %s", position);
  check(qsm_shutdown(node, 5000, NULL), "shutdown");
  qsm_subscription_free(late);
  qsm_keeper_free(keeper);
  qsm_publisher_free(news);
  qsm_node_free(node);
  return 0;
}
