/* Cyclone DDS: one topic for each group, reliable, everything kept until it is acknowledged. */
#include "bench.h"
#include "sample.h"

#include <dds/dds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAKE_MAX = 256, NAME = 64, XML = 2048 };

static dds_entity_t participant, waitset, *writers, *readers;
/* Groups written to since the last flush. */
static int *dirty, dirty_count;
static bool *is_dirty;
static dds_attach_t *ready; /* groups whose reader has something */
static size_t ready_max;

static int check(int result, const char *what)
{
    if (result < 0)
        bench_fail(what, dds_strretcode(-result));
    return result;
}

/* All of the configuration is in one text; what is not named here has its default. */
static void configure(const struct bench_options *options)
{
    char xml[XML];
    snprintf(xml, sizeof xml,
             "<CycloneDDS><Domain><General><Interfaces>"
             "<NetworkInterface name=\"%s\" multicast=\"true\"/></Interfaces>"
             "<AllowMulticast>true</AllowMulticast>"
             "<MaxMessageSize>%s</MaxMessageSize><FragmentSize>%s</FragmentSize></General>"
             "<Discovery><Tag>bench-%d</Tag><ParticipantIndex>none</ParticipantIndex></Discovery>"
             "<Internal><SocketReceiveBufferSize min=\"%s\"/>"
             "<Watermarks><WhcHigh>%s</WhcHigh></Watermarks></Internal></Domain></CycloneDDS>",
             options->interface, bench_setting("message-size", "14720B"),
             bench_setting("fragment-size", "1344B"), options->port,
             bench_setting("receive-buffer", "default"), bench_setting("whc-high", "500kB"));
    /* "default" is the library's word for it only in some places; leave the element out. */
    if (strstr(xml, "min=\"default\"")) {
        char *from = strstr(xml, "<SocketReceiveBufferSize"), *to = strstr(from, "/>") + 2;
        memmove(from, to, strlen(to) + 1);
    }
    setenv("CYCLONEDDS_URI", xml, 1);
}

static dds_qos_t *quality(void)
{
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_INFINITY);
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    return qos;
}

static dds_entity_t topic(int group)
{
    char name[NAME];
    snprintf(name, sizeof name, "bench_%d", group);
    return check(dds_create_topic(participant, &bench_Sample_desc, name, NULL, NULL), "topic");
}

static void open_sender(const struct bench_options *options)
{
    configure(options);
    participant = check(dds_create_participant(0, NULL, NULL), "participant");
    /* It sets a flag in the domains that exist. */
    dds_write_set_batch(bench_number("batch", 0) != 0);
    writers = calloc((size_t)options->groups, sizeof *writers);
    dirty = calloc((size_t)options->groups, sizeof *dirty);
    is_dirty = calloc((size_t)options->groups, sizeof *is_dirty);
    /* One publisher for all: a writer of a participant would bring its own. */
    dds_entity_t publisher = check(dds_create_publisher(participant, NULL, NULL), "publisher");
    dds_qos_t *qos = quality();
    for (int group = 0; group < options->groups; group++)
        writers[group] = check(dds_create_writer(publisher, topic(group), qos, NULL), "writer");
    dds_delete_qos(qos);
}

static void open_receiver(const struct bench_options *options)
{
    configure(options);
    participant = check(dds_create_participant(0, NULL, NULL), "participant");
    readers = calloc((size_t)options->groups, sizeof *readers);
    ready_max = (size_t)options->groups;
    ready = calloc(ready_max, sizeof *ready);
    waitset = check(dds_create_waitset(participant), "waitset");
    dds_entity_t subscriber = check(dds_create_subscriber(participant, NULL, NULL), "subscriber");
    dds_qos_t *qos = quality();
    for (int group = 0; group < options->groups; group++) {
        if (!bench_wants(group))
            continue;
        readers[group] = check(dds_create_reader(subscriber, topic(group), qos, NULL), "reader");
        check(dds_set_status_mask(readers[group], DDS_DATA_AVAILABLE_STATUS), "status mask");
        check(dds_waitset_attach(waitset, readers[group], group), "waitset_attach");
    }
    dds_delete_qos(qos);
}


static void send_message(int group, const uint8_t *message, size_t length)
{
    bench_Sample sample = {{0}};
    sample.bytes._buffer = (uint8_t *)message;
    sample.bytes._length = sample.bytes._maximum = (uint32_t)length;
    check(dds_write(writers[group], &sample), "dds_write");
    if (!is_dirty[group]) {
        is_dirty[group] = true;
        dirty[dirty_count++] = group;
    }
}

static void flush(void)
{
    for (int i = 0; i < dirty_count; i++) {
        is_dirty[dirty[i]] = false;
        dds_write_flush(writers[dirty[i]]);
    }
    dirty_count = 0;
}

static void take(dds_entity_t reader)
{
    static void *samples[TAKE_MAX];
    static dds_sample_info_t info[TAKE_MAX];
    int count;
    do {
        samples[0] = NULL;
        count = check(dds_take(reader, samples, info, TAKE_MAX, TAKE_MAX), "dds_take");
        for (int i = 0; i < count; i++)
            if (info[i].valid_data) {
                const bench_Sample *sample = samples[i];
                bench_deliver(sample->bytes._buffer, sample->bytes._length);
            }
        if (count > 0)
            check(dds_return_loan(reader, samples, count), "dds_return_loan");
    } while (count == TAKE_MAX);
}

static void receive(void)
{
    int count = check(dds_waitset_wait(waitset, ready, ready_max, DDS_MSECS(10)), "waitset_wait");
    for (int i = 0; i < count; i++)
        take(readers[ready[i]]);
}

static void close_all(void) { dds_delete(participant); }

int main(int argc, char **argv)
{
    static const struct bench_system system = {
        .open_sender = open_sender,
        .open_receiver = open_receiver,
        .send = send_message,
        .flush = flush,
        .receive = receive,
        .close = close_all,
    };
    return bench_main(argc, argv, &system);
}
