/* ZeroMQ: PUB/SUB over tcp, or over epgm (OpenPGM in UDP) where the library has it.
 *
 * One socket carries all groups; the first four bytes of a message are its group, so that
 * subscribers filter by prefix, which is ZeroMQ's way to have topics. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum { PREFIX = 4, URL = 128 };

static void *context, *zmq;

static void check(int result, const char *what)
{
    if (result < 0)
        bench_fail(what, zmq_strerror(errno));
}

static void set(int option, int value, const char *what)
{
    check(zmq_setsockopt(zmq, option, &value, sizeof value), what);
}

static bool multicast(void) { return strcmp(bench_setting("transport", "tcp"), "epgm") == 0; }

static void url(char *text, const struct bench_options *options, int sender)
{
    if (multicast())
        snprintf(text, URL, "epgm://%s;239.255.84.1:%d", options->address, options->port);
    else
        snprintf(text, URL, "tcp://%s:%d", options->senders[sender], options->port + sender);
}

/* The multicast transport sends at a fixed rate and keeps what it may have to repeat for a fixed
 * time: rate in kbit/s, time in ms. Their product is memory at both ends. */
static void set_rate(void)
{
    if (!multicast())
        return;
    set(ZMQ_SNDBUF, (int)bench_number("socket-buffer", -1), "ZMQ_SNDBUF");
    set(ZMQ_RCVBUF, (int)bench_number("socket-buffer", -1), "ZMQ_RCVBUF");
    set(ZMQ_RATE, (int)bench_number("rate-kbit", 100), "ZMQ_RATE");
    set(ZMQ_RECOVERY_IVL, (int)bench_number("recovery-ms", 10000), "ZMQ_RECOVERY_IVL");
}

static void open_sender(const struct bench_options *options)
{
    char address[URL];
    context = zmq_ctx_new();
    zmq = zmq_socket(context, ZMQ_PUB);
    /* Wait at the high-water mark instead of dropping. */
    set(ZMQ_XPUB_NODROP, 1, "ZMQ_XPUB_NODROP");
    set(ZMQ_SNDHWM, (int)bench_number("hwm", 1000), "ZMQ_SNDHWM");
    set(ZMQ_RCVHWM, 0, "ZMQ_RCVHWM"); /* subscriptions */
    set(ZMQ_LINGER, 1000, "ZMQ_LINGER");
    set_rate();
    url(address, options, options->index);
    check(zmq_bind(zmq, address), address);
}

static void open_receiver(const struct bench_options *options)
{
    char address[URL];
    context = zmq_ctx_new();
    zmq = zmq_socket(context, ZMQ_SUB);
    set(ZMQ_RCVHWM, (int)bench_number("hwm", 1000), "ZMQ_RCVHWM");
    set(ZMQ_RCVTIMEO, 10, "ZMQ_RCVTIMEO");
    /* Subscriptions go upstream through a queue of this length, and are dropped when it is full. */
    set(ZMQ_SNDHWM, 0, "ZMQ_SNDHWM");
    set_rate();
    for (int32_t group = 0; group < options->groups; group++)
        if (bench_wants(group))
            check(zmq_setsockopt(zmq, ZMQ_SUBSCRIBE, &group, PREFIX), "ZMQ_SUBSCRIBE");
    for (int sender = 0; sender < (multicast() ? 1 : options->sender_count); sender++) {
        url(address, options, sender);
        check(zmq_connect(zmq, address), address);
    }
}

static void send_message(int group, const uint8_t *message, size_t length)
{
    zmq_msg_t out;
    check(zmq_msg_init_size(&out, PREFIX + length), "zmq_msg_init_size");
    uint8_t *data = zmq_msg_data(&out);
    int32_t prefix = group;
    memcpy(data, &prefix, PREFIX);
    memcpy(data + PREFIX, message, length);
    while (zmq_msg_send(&out, zmq, 0) < 0)
        if (errno != EINTR && errno != EAGAIN)
            bench_fail("zmq_msg_send", zmq_strerror(errno));
}

static void receive(void)
{
    zmq_msg_t in;
    zmq_msg_init(&in);
    if (zmq_msg_recv(&in, zmq, 0) >= PREFIX)
        bench_deliver((const uint8_t *)zmq_msg_data(&in) + PREFIX, zmq_msg_size(&in) - PREFIX);
    zmq_msg_close(&in);
}

static void close_all(void)
{
    zmq_close(zmq);
    zmq_ctx_term(context);
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
