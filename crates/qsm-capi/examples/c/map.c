/* A desk sets prices in a map, and a screen has the same map and sees them change.
 *
 *   cc map.c -lqsm -o map && ./map
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

static qsm_node *start(const char *cluster, const char *embedded) {
  qsm_settings *settings;
  check(qsm_settings_new(&settings), "settings");
  check(qsm_set(settings, "cluster", cluster), "cluster");
  check(qsm_set(settings, "interface", "lo"), "interface");
  check(qsm_set(settings, "embedded", embedded), "embedded");
  qsm_node *node;
  check(qsm_start(settings, &node), "start");
  qsm_settings_free(settings);
  return node;
}

/* Its state is that of the others when this returns. */
static qsm_map *open_prices(const qsm_node *node) {
  qsm_map *map;
  check(qsm_map_open(node, "prices", NULL, &map), "open");
  check(qsm_map_wait_live(map, 60000), "wait");
  return map;
}

/* Prints what has changed, once something has. */
static void print_changes(const qsm_map *map) {
  qsm_entries changes;
  check(qsm_map_poll(map, 100, 60000, &changes), "poll");
  for (size_t i = 0; i < changes.count; i++) {
    const qsm_entry *entry = &changes.entries[i];
    switch (entry->kind) {
    case QSM_CHANGE_SET:
      printf("%.*s %.*s\n", (int)entry->key_length, entry->key, (int)entry->length,
             (const char *)entry->value);
      break;
    case QSM_CHANGE_REMOVED:
      printf("%.*s is gone\n", (int)entry->key_length, entry->key);
      break;
    default:
      printf("all entries follow\n");
    }
  }
  qsm_entries_release(&changes);
}

int main(int argc, char **argv) {
  const char *cluster = argc > 1 ? argv[1] : "floor";
  qsm_node *desk_node = start(cluster, "always");
  qsm_node *screen_node = start(cluster, "never");
  qsm_map *desk = open_prices(desk_node);
  check(qsm_map_put(desk, "eur", 3, "1.0842", 6), "put");
  qsm_map *screen = open_prices(screen_node);
  print_changes(screen);
  check(qsm_map_put(desk, "eur", 3, "1.0851", 6), "put");
  print_changes(screen);
  check(qsm_map_remove(desk, "eur", 3), "remove");
  print_changes(screen);
  printf("%llu left\n", (unsigned long long)qsm_map_length(screen));

  qsm_map_close(screen);
  qsm_map_close(desk);
  check(qsm_shutdown(desk_node, 5000, NULL), "shutdown");
  check(qsm_shutdown(screen_node, 5000, NULL), "shutdown");
  qsm_node_free(screen_node);
  qsm_node_free(desk_node);
  return 0;
}
