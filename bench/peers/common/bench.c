#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SETTINGS_MAX = 32, PHASES = 256, HEADER = 16, TAIL = 8 };
/* The clock is read once in so many messages, of a receiver that takes no latencies and of a
 * sender without a rate. */
enum { CLOCK_EVERY = 16 };
/* A receiver that is short of messages gives up after so long without one. */
static const uint64_t PATIENCE_NS = 10000000000ull;
static const uint64_t STAMP_MASK = (1ull << 44) - 1;
static const uint64_t NUMBER_MASK = (1ull << 48) - 1;

/* Buckets of at most 1/64 relative width: an exponent and 6 bits. */
enum { FINE_BITS = 6, FINE = 1 << FINE_BITS, BUCKETS = 44 * FINE };

static const char *settings[SETTINGS_MAX];
static int setting_count;
static struct bench_options options;
static const struct bench_system *bench;

/* Rare groups: which a receiver has, and how many receivers each has. */
static char *wants, *audience;
static bool *wanted;
static int *audiences;

static uint8_t *pattern; /* what a message contains between header and tail */

/* One stream of numbers: what one sender says in one group. */
struct cursor {
    uint64_t next;
    uint16_t phase;
    bool heard;
};
static struct cursor *cursors;
static size_t unheard;

/* Only the receiving thread writes; the other looks on. */
static struct {
    _Atomic uint64_t messages[PHASES];
    _Atomic uint64_t wrong;
    _Atomic uint64_t last_ns;
    _Atomic bool stop;
} tally;
static uint32_t histogram[BUCKETS];
static uint64_t latency_max;
static int histogram_phase = -1;

void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    _exit(1);
}

uint64_t bench_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

const char *bench_setting(const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 0; i < setting_count; i++)
        if (strncmp(settings[i], name, length) == 0 && settings[i][length] == '=')
            return settings[i] + length + 1;
    return otherwise;
}

long bench_number(const char *name, long otherwise)
{
    const char *value = bench_setting(name, NULL);
    return value ? atol(value) : otherwise;
}

static uint64_t word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void put_word(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }

static void make_pattern(void)
{
    pattern = malloc(options.payload);
    for (size_t i = 0; i < options.payload; i++)
        pattern[i] = (uint8_t)(i * 7 + 3);
}

/* Sending. */

static uint64_t *numbers; /* of the next message in each group */

static void send_one(uint8_t *message, int phase, int group, uint64_t stamp)
{
    uint64_t name = numbers[group]++ | (uint64_t)phase << 48 | (uint64_t)options.index << 56;
    put_word(message, name);
    put_word(message + 8, (stamp & STAMP_MASK) | (uint64_t)group << 44);
    if (options.payload >= HEADER + TAIL)
        put_word(message + options.payload - TAIL, name);
    bench->send(group, message, options.payload);
}

static void probe(uint8_t *message)
{
    for (int group = 0; group < options.groups; group++)
        send_one(message, 0, group, 0);
    if (bench->flush)
        bench->flush();
    printf("probed\n");
}

static uint64_t flood(uint8_t *message, int phase, uint64_t end)
{
    uint64_t sent = 0;
    int group = 0, rare = options.common, until_rare = BENCH_RARE_EVERY;
    do {
        for (int i = 0; i < CLOCK_EVERY; i++, sent++) {
            if (--until_rare == 0) {
                until_rare = BENCH_RARE_EVERY;
                if (rare < options.groups) {
                    send_one(message, phase, rare, 0);
                    rare = rare + 1 < options.groups ? rare + 1 : options.common;
                    continue;
                }
            }
            send_one(message, phase, group, 0);
            group = group + 1 < options.common ? group + 1 : 0;
        }
    } while (bench_now() < end);
    return sent;
}

/* Each message is stamped with the time at which it was due, not with that at which it could be
 * sent: a system that stalls its sender is charged for all who waited. */
static uint64_t pace(uint8_t *message, int phase, uint64_t start, uint64_t total, uint64_t rate)
{
    for (uint64_t i = 0; i < total; i++) {
        uint64_t due = start + i * 1000000000ull / rate;
        struct timespec until = {(time_t)(due / 1000000000ull), (long)(due % 1000000000ull)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        send_one(message, phase, (int)(i % (uint64_t)options.groups), due);
        if (bench->flush)
            bench->flush();
    }
    return total;
}

static void go(uint8_t *message, int phase, uint64_t millis, uint64_t rate)
{
    for (int group = 0; group < options.groups; group++)
        numbers[group] = 1;
    uint64_t start = bench_now();
    uint64_t sent = rate ? pace(message, phase, start, rate * millis / 1000, rate)
                         : flood(message, phase, start + millis * 1000000);
    if (bench->flush)
        bench->flush();
    uint64_t done = bench_now();
    printf("sent {\"messages\":%llu,\"start_ns\":%llu,\"end_ns\":%llu,\"rare\":[",
           (unsigned long long)sent, (unsigned long long)start, (unsigned long long)done);
    for (int group = options.common; group < options.groups; group++)
        printf("%s%llu", group > options.common ? "," : "",
               (unsigned long long)(numbers[group] - 1));
    printf("]}\n");
}

static void sender(void)
{
    numbers = calloc((size_t)options.groups, sizeof *numbers);
    uint8_t *message = malloc(options.payload);
    memcpy(message, pattern, options.payload);
    bench->open_sender(&options);
    printf("ready\n");
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        int phase;
        unsigned long long millis, rate;
        if (strcmp(line, "probe\n") == 0)
            probe(message);
        else if (sscanf(line, "go %d %llu %llu", &phase, &millis, &rate) == 3)
            go(message, phase, millis, rate);
        else
            break;
    }
}

/* Receiving. */

static unsigned bucket(uint64_t value)
{
    if (value < FINE)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - FINE_BITS;
    unsigned index = (shift << FINE_BITS) + (unsigned)(value >> shift);
    return index < BUCKETS ? index : BUCKETS - 1;
}

/* The upper end of a bucket. */
static uint64_t bucket_value(unsigned index)
{
    if (index < 2 * FINE)
        return index;
    unsigned shift = (index >> FINE_BITS) - 1;
    return ((uint64_t)(index - (shift << FINE_BITS)) + 1) << shift;
}

static void take_latency(int phase, uint64_t stamp, uint64_t now)
{
    if (phase != histogram_phase) {
        memset(histogram, 0, sizeof histogram);
        latency_max = 0;
        histogram_phase = phase;
    }
    uint64_t latency = (now - stamp) & STAMP_MASK;
    histogram[bucket(latency)]++;
    if (latency > latency_max)
        latency_max = latency;
}

static bool intact(const uint8_t *message, size_t length)
{
    if (length != options.payload)
        return false;
    if (length < HEADER + TAIL)
        return memcmp(message + HEADER, pattern + HEADER, length - HEADER) == 0;
    return word(message + length - TAIL) == word(message) &&
           memcmp(message + HEADER, pattern + HEADER, length - HEADER - TAIL) == 0;
}

static void hear_probe(struct cursor *cursor)
{
    if (cursor->heard)
        return;
    cursor->heard = true;
    if (--unheard == 0)
        printf("heard\n");
}

void bench_deliver(const uint8_t *message, size_t length)
{
    static uint64_t wrong, since_clock;
    if (length < HEADER) {
        atomic_store_explicit(&tally.wrong, ++wrong, memory_order_relaxed);
        return;
    }
    uint64_t name = word(message), place = word(message + 8);
    int phase = (int)(name >> 48 & 0xff), sender = (int)(name >> 56);
    int group = (int)(place >> 44);
    bool known = sender < options.sender_count && group < options.groups && wanted[group];
    if (!known || !intact(message, length)) {
        atomic_store_explicit(&tally.wrong, ++wrong, memory_order_relaxed);
        return;
    }
    struct cursor *cursor = &cursors[(size_t)sender * (size_t)options.groups + (size_t)group];
    if (phase == 0) {
        hear_probe(cursor);
        return;
    }
    if (cursor->phase != phase) {
        cursor->phase = (uint16_t)phase;
        cursor->next = 1;
    }
    uint64_t number = name & NUMBER_MASK;
    if (number != cursor->next)
        atomic_store_explicit(&tally.wrong, ++wrong, memory_order_relaxed);
    cursor->next = number + 1;
    uint64_t stamp = place & STAMP_MASK;
    if (stamp || since_clock++ % CLOCK_EVERY == 0) {
        uint64_t now = bench_now();
        atomic_store_explicit(&tally.last_ns, now, memory_order_relaxed);
        if (stamp)
            take_latency(phase, stamp, now);
    }
    uint64_t count = atomic_load_explicit(&tally.messages[phase], memory_order_relaxed);
    atomic_store_explicit(&tally.messages[phase], count + 1, memory_order_release);
}

static double quantile_us(uint64_t count, double share)
{
    uint64_t rank = (uint64_t)((double)count * share), seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen > rank)
            return (double)bucket_value(i) / 1e3;
    }
    return (double)latency_max / 1e3;
}

static void await(int phase, uint64_t goal)
{
    uint64_t seen = 0, progress = bench_now();
    for (;;) {
        uint64_t now = bench_now();
        uint64_t count = atomic_load_explicit(&tally.messages[phase], memory_order_acquire);
        if (count >= goal || now - progress > PATIENCE_NS)
            break;
        if (count != seen)
            progress = now;
        seen = count;
        usleep(500);
    }
    uint64_t count = atomic_load_explicit(&tally.messages[phase], memory_order_acquire);
    printf("received {\"messages\":%llu,\"wrong\":%llu,\"last_ns\":%llu", (unsigned long long)count,
           (unsigned long long)tally.wrong, (unsigned long long)tally.last_ns);
    if (phase == histogram_phase)
        printf(",\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f",
               quantile_us(count, 0.5), quantile_us(count, 0.99), quantile_us(count, 0.999),
               (double)latency_max / 1e3);
    printf("}\n");
}

static void *receive(void *unused)
{
    (void)unused;
    while (!atomic_load_explicit(&tally.stop, memory_order_relaxed))
        bench->receive();
    return NULL;
}

static void receiver(void)
{
    size_t groups = (size_t)options.groups, has = 0;
    for (int group = 0; group < options.groups; group++)
        has += wanted[group];
    unheard = (size_t)options.sender_count * has;
    cursors = calloc((size_t)options.sender_count * groups, sizeof *cursors);
    bench->open_receiver(&options);
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, NULL) != 0)
        bench_fail("pthread_create", "no thread");
    printf("ready\n");
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        int phase;
        unsigned long long goal;
        if (sscanf(line, "await %d %llu", &phase, &goal) != 2)
            break;
        await(phase, goal);
    }
    atomic_store(&tally.stop, true);
    pthread_join(thread, NULL);
}

static void parse_senders(char *list)
{
    for (char *part = strtok(list, ","); part; part = strtok(NULL, ",")) {
        if (options.sender_count == BENCH_SENDERS_MAX)
            bench_fail("--senders", "too many");
        options.senders[options.sender_count++] = part;
    }
}

bool bench_wants(int group) { return wanted[group]; }

int bench_audience(int group) { return audiences[group]; }

/* Which groups it has, and how many receivers each has: of those that are not rare, all. */
static void parse_layout(void)
{
    wanted = calloc((size_t)options.groups, sizeof *wanted);
    audiences = calloc((size_t)options.groups, sizeof *audiences);
    for (int group = 0; group < options.groups; group++) {
        wanted[group] = group < options.common;
        audiences[group] = options.receivers;
    }
    for (char *part = wants ? strtok(wants, ",") : NULL; part; part = strtok(NULL, ",")) {
        int group = atoi(part);
        if (group < 0 || group >= options.groups)
            bench_fail("--wants", "there is no such group");
        wanted[group] = true;
    }
    int rare = options.common;
    for (char *part = audience ? strtok(audience, ",") : NULL; part; part = strtok(NULL, ",")) {
        if (rare == options.groups)
            bench_fail("--audience", "more than rare groups");
        audiences[rare++] = atoi(part);
    }
}

static void parse(int argc, char **argv)
{
    if (argc < 2)
        bench_fail(argv[0], "send or receive?");
    options.sends = strcmp(argv[1], "send") == 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--interface") == 0)
            options.interface = value;
        else if (strcmp(name, "--address") == 0)
            options.address = value;
        else if (strcmp(name, "--senders") == 0)
            parse_senders(value);
        else if (strcmp(name, "--receivers") == 0)
            options.receivers = atoi(value);
        else if (strcmp(name, "--index") == 0)
            options.index = atoi(value);
        else if (strcmp(name, "--port") == 0)
            options.port = atoi(value);
        else if (strcmp(name, "--groups") == 0)
            options.groups = atoi(value);
        else if (strcmp(name, "--common") == 0)
            options.common = atoi(value);
        else if (strcmp(name, "--wants") == 0)
            wants = value;
        else if (strcmp(name, "--audience") == 0)
            audience = value;
        else if (strcmp(name, "--payload") == 0)
            options.payload = (size_t)atol(value);
        else if (strcmp(name, "--set") == 0 && setting_count < SETTINGS_MAX)
            settings[setting_count++] = value;
        else
            bench_fail(name, "unknown option");
    }
    if (options.payload < HEADER || options.groups < 1 || options.sender_count < 1)
        bench_fail(argv[0], "--payload (at least 16), --groups and --senders are needed");
    if (options.common < 1 || options.common > options.groups)
        options.common = options.groups;
    parse_layout();
}

int bench_main(int argc, char **argv, const struct bench_system *system)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench = system;
    parse(argc, argv);
    make_pattern();
    if (options.sends)
        sender();
    else
        receiver();
    if (system->close)
        system->close();
    return 0;
}
