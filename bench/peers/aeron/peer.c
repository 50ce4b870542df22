/* Aeron: a stream for each group, by UDP multicast or by copies. Each process brings its media driver, in the
 * threading mode that Aeron advises for machines with few cores; with `--set driver=shared` the first
 * receiver's serves all receivers of the host, with `--set driver=host` the first sender's serves
 * all processes of the host. */
#include "bench.h"

#include <aeronc.h>
#include <aeronmd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { URI = 512, STREAM = 1000, FRAGMENTS = 64, SPINS = 10, YIELDS = 20 };

static aeron_driver_t *driver;
static aeron_driver_context_t *driver_context;
static aeron_context_t *context;
static aeron_t *client;
static aeron_publication_t **publications;
static aeron_subscription_t **subscriptions;
static aeron_fragment_assembler_t *assembler;
static int group_count;
static char folder[URI];

static void check(int result, const char *what)
{
    if (result < 0)
        bench_fail(what, aeron_errmsg());
}

/* Nothing came in: as Aeron's backoff idle strategy, spin, then yield, then sleep. */
static void idle(int work)
{
    static int idles;
    idles = work > 0 ? 0 : idles + 1;
    if (idles <= SPINS)
        return;
    if (idles <= SPINS + YIELDS)
        sched_yield();
    else {
        int doublings = idles - SPINS - YIELDS < 10 ? idles - SPINS - YIELDS : 10;
        struct timespec time = {0, 1000L << doublings};
        nanosleep(&time, NULL);
    }
}

static void start_driver(void)
{
    check(aeron_driver_context_init(&driver_context), "driver context");
    check(aeron_driver_context_set_dir(driver_context, folder), "dir");
    check(aeron_driver_context_set_dir_delete_on_start(driver_context, true), "dir");
    check(aeron_driver_context_set_dir_delete_on_shutdown(driver_context, true), "dir");
    check(aeron_driver_context_set_threading_mode(driver_context, AERON_THREADING_MODE_SHARED),
          "threading mode");
    size_t window = (size_t)bench_number("window", 128 << 10);
    check(aeron_driver_context_set_rcv_initial_window_length(driver_context, window), "window");
    size_t buffers = (size_t)bench_number("socket-buffer", 128 << 10);
    check(aeron_driver_context_set_socket_so_rcvbuf(driver_context, buffers), "so_rcvbuf");
    check(aeron_driver_context_set_socket_so_sndbuf(driver_context, buffers), "so_sndbuf");
    size_t term = (size_t)bench_number("term", 16 << 20);
    check(aeron_driver_context_set_term_buffer_length(driver_context, term), "term length");
    check(aeron_driver_context_set_term_buffer_sparse_file(driver_context, true), "sparse");
    size_t mtu = (size_t)bench_number("mtu", 1408);
    check(aeron_driver_context_set_mtu_length(driver_context, mtu), "mtu");
    check(aeron_driver_init(&driver, driver_context), "aeron_driver_init");
    check(aeron_driver_start(driver, false), "aeron_driver_start");
}

static bool driver_is(const char *whose)
{
    return strcmp(bench_setting("driver", "own"), whose) == 0;
}

static void connect_client(const struct bench_options *options)
{
    bool of_receivers = !options->sends && driver_is("shared");
    bool shared = of_receivers || driver_is("host");
    bool first = options->index == 0 && (of_receivers || options->sends);
    snprintf(folder, sizeof folder, "/dev/shm/aeron-bench-%d-%d", options->port,
             shared ? 0 : (int)getpid());
    if (!shared || first)
        start_driver();
    check(aeron_context_init(&context), "context");
    check(aeron_context_set_dir(context, folder), "dir");
    check(aeron_context_set_driver_timeout_ms(context, 30000), "driver timeout");
    check(aeron_init(&client, context), "aeron_init");
    check(aeron_start(client), "aeron_start");
}

/* All receivers must keep up and be there: minimum flow control of a group of so many. To a sender
 * a driver is one receiver, whoever shares it. With `control=dynamic` the sender's driver sends a
 * copy to each receiver that asks for it at the sender's control address (MDC). */
static void channel(char *uri, const struct bench_options *options, int receivers)
{
    bool shared = driver_is("shared") || driver_is("host");
    int group = shared ? 1 : receivers, port = options->port | 1;
    if (strcmp(bench_setting("control", ""), "dynamic") != 0)
        snprintf(uri, URI, "aeron:udp?endpoint=239.255.85.1:%d|interface=%s|ttl=1|fc=min,g:/%d",
                 port, options->address, group);
    else if (options->sends)
        snprintf(uri, URI, "aeron:udp?control=%s:%d|control-mode=dynamic|fc=min,g:/%d",
                 options->address, port, group);
    else
        snprintf(uri, URI, "aeron:udp?endpoint=%s:0|control=%s:%d|control-mode=dynamic",
                 options->address, options->senders[0], port);
}

static void open_sender(const struct bench_options *options)
{
    char uri[URI];
    connect_client(options);
    group_count = options->groups;
    publications = calloc((size_t)group_count, sizeof *publications);
    for (int group = 0; group < group_count; group++) {
        aeron_async_add_publication_t *adding;
        channel(uri, options, bench_audience(group));
        check(aeron_async_add_publication(&adding, client, uri, STREAM + group), "add publication");
        while (!publications[group]) {
            check(aeron_async_add_publication_poll(&publications[group], adding), "publication");
            usleep(100);
        }
    }
}

static void deliver(void *unused, const uint8_t *bytes, size_t length, aeron_header_t *header)
{
    (void)unused;
    (void)header;
    bench_deliver(bytes, length);
}

static void open_receiver(const struct bench_options *options)
{
    char uri[URI];
    connect_client(options);
    channel(uri, options, options->receivers);
    group_count = options->groups;
    check(aeron_fragment_assembler_create(&assembler, deliver, NULL), "assembler");
    subscriptions = calloc((size_t)group_count, sizeof *subscriptions);
    for (int group = 0; group < group_count; group++) {
        aeron_async_add_subscription_t *adding;
        if (!bench_wants(group))
            continue;
        check(aeron_async_add_subscription(&adding, client, uri, STREAM + group, NULL, NULL, NULL,
                                           NULL),
              "add subscription");
        while (!subscriptions[group]) {
            check(aeron_async_add_subscription_poll(&subscriptions[group], adding),
                  "subscription");
            usleep(100);
        }
    }
}

static void send_message(int group, const uint8_t *message, size_t length)
{
    for (;;) {
        int64_t result =
            aeron_publication_offer(publications[group], message, length, NULL, NULL);
        if (result > 0)
            break;
        if (result == AERON_PUBLICATION_CLOSED || result == AERON_PUBLICATION_ERROR ||
            result == AERON_PUBLICATION_MAX_POSITION_EXCEEDED)
            bench_fail("aeron_publication_offer", aeron_errmsg());
        idle(0);
    }
    idle(1);
}

static void receive(void)
{
    int work = 0;
    for (int group = 0; group < group_count; group++) {
        if (!subscriptions[group])
            continue;
        int count = aeron_subscription_poll(subscriptions[group],
                                            aeron_fragment_assembler_handler, assembler, FRAGMENTS);
        check(count, "aeron_subscription_poll");
        work += count;
    }
    idle(work);
}

static void close_all(void)
{
    aeron_close(client);
    aeron_context_close(context);
    if (driver) {
        aeron_driver_close(driver);
        aeron_driver_context_close(driver_context);
    }
}

int main(int argc, char **argv)
{
    static const struct bench_system system = {
        .open_sender = open_sender,
        .open_receiver = open_receiver,
        .send = send_message,
        .receive = receive,
        .close = close_all,
    };
    return bench_main(argc, argv, &system);
}
