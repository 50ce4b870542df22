/* Receives messages of a group, and says how many in a time: receive-c CLUSTER WARM-UP-MS MS */
#include <qsm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 1000 };

static uint64_t sum;

static void check(qsm_code code)
{
    if (code != QSM_OK) {
        fprintf(stderr, "%s\n", qsm_error());
        exit(1);
    }
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void say(const char *word, uint64_t count, uint64_t nanoseconds)
{
    printf("%s %lu %lu\n", word, count, nanoseconds);
    fflush(stdout);
}

/* Counts messages until the time is over. */
static uint64_t receive(const qsm_subscription *subscription, uint64_t nanoseconds)
{
    uint64_t count = 0;
    uint64_t begun = now();
    while (now() - begun < nanoseconds) {
        qsm_batch batch;
        check(qsm_poll(subscription, BATCH, 100, &batch));
        for (size_t at = 0; at < batch.count; at++) {
            const qsm_item *item = &batch.items[at];
            if (item->kind == QSM_KIND_MESSAGE) {
                sum += item->data[0] + item->number;
                count++;
            }
        }
        qsm_release(&batch);
    }
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    qsm_settings *settings;
    qsm_node *node;
    qsm_subscription *subscription;
    const char *group = "rate";
    check(qsm_settings_new(&settings));
    check(qsm_set(settings, "cluster", argv[1]));
    check(qsm_set(settings, "interface", "lo"));
    check(qsm_start(settings, &node));
    check(qsm_subscribe(node, &group, 1, NULL, &subscription));
    say("ready", 0, 0);
    receive(subscription, strtoull(argv[2], NULL, 10) * 1000000);
    say("warm", 0, 0);
    uint64_t begun = now();
    uint64_t count = receive(subscription, strtoull(argv[3], NULL, 10) * 1000000);
    say("rate", count, now() - begun);
    getchar();
    return sum == 0;
}
