/* NORM: a multicast session with one stream object for each group. C++, as its header is. */
#include "bench.h"

#include <normApi.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT = 1400, BLOCK = 64, PARITY = 8, RECEIVER_IDS = 1000 };

/* A session, and the message that is being put together from its stream. */
struct flow {
    NormSessionHandle session;
    NormObjectHandle stream;
    size_t unacknowledged; /* bytes since the last watermark was reached */
    bool marked;           /* a watermark is on its way */
    bool dirty;            /* written since the last flush */
};

/* What is received of one sender in one group. */
struct inlet {
    uint8_t *bytes;
    size_t length;
    bool synchronized;
};

static NormInstanceHandle instance;
static struct flow *flows;
static size_t buffer_bytes, payload;
static int group_count;

static void open_session(const struct bench_options *options, int group, NormNodeId id)
{
    char address[32];
    /* A group address each: sessions of one port must not hear each other. */
    snprintf(address, sizeof address, "239.253.%d.%d", group >> 8, (group & 0xff) + 1);
    NormSessionHandle session =
        NormCreateSession(instance, address, (UINT16)(options->port), id);
    if (session == NORM_SESSION_INVALID)
        bench_fail("NormCreateSession", address);
    NormSetRxPortReuse(session, true, address, NULL, 0);
    NormSetMulticastInterface(session, options->interface);
    NormSetMulticastLoopback(session, true);
    flows[group].session = session;
}

static void open_common(const struct bench_options *options, NormNodeId id)
{
    instance = NormCreateInstance(false);
    group_count = options->groups;
    payload = options->payload;
    buffer_bytes = (size_t)bench_number("buffer", 32 << 20) / (size_t)group_count;
    if (buffer_bytes < 1 << 20)
        buffer_bytes = 1 << 20;
    flows = static_cast<flow *>(calloc((size_t)group_count, sizeof *flows));
    for (int group = 0; group < group_count; group++)
        open_session(options, group, id);
}

static void open_sender(const struct bench_options *options)
{
    open_common(options, (NormNodeId)(1 + options->index));
    unsigned sockets = (unsigned)bench_number("socket-buffer", 4 << 20);
    for (int group = 0; group < group_count; group++) {
        NormSessionHandle session = flows[group].session;
        NormSetTxRate(session, (double)bench_number("rate-mbit", 500) * 1e6 / options->sender_count);
        NormSetGrttEstimate(session, 0.001);
        NormSetGroupSize(session, (unsigned)options->receivers);
        /* Acknowledged watermarks say what may be freed, not a timer. */
        NormSetFlowControl(session, 0.0);
        for (int receiver = 0; receiver < options->receivers; receiver++)
            NormAddAckingNode(session, (NormNodeId)(RECEIVER_IDS + receiver));
        if (!NormStartSender(session, (NormSessionId)(1 + options->index), (UINT32)buffer_bytes,
                             SEGMENT, BLOCK, PARITY, 0))
            bench_fail("NormStartSender", "refused");
        NormSetTxSocketBuffer(session, sockets);
        flows[group].stream = NormStreamOpen(session, (UINT32)buffer_bytes, NULL, 0);
        if (flows[group].stream == NORM_OBJECT_INVALID)
            bench_fail("NormStreamOpen", "refused");
    }
}

static struct flow *flow_of(NormSessionHandle session)
{
    for (int group = 0; group < group_count; group++)
        if (flows[group].session == session)
            return &flows[group];
    return NULL;
}

/* Waits for an event and notes what it says about watermarks. */
static void handle_sender_event(void)
{
    NormEvent event;
    if (!NormGetNextEvent(instance, &event, true))
        bench_fail("NormGetNextEvent", "the instance has ended");
    if (event.type != NORM_TX_WATERMARK_COMPLETED)
        return;
    struct flow *flow = flow_of(event.session);
    if (!flow || !flow->marked)
        return;
    flow->marked = false;
    if (NormGetAckingStatus(flow->session, NORM_NODE_ANY) == NORM_ACK_SUCCESS)
        flow->unacknowledged = 0;
    else
        flow->marked = NormSetWatermark(flow->session, flow->stream, true);
}

/* At most a buffer may be unacknowledged; the half of it asks for an acknowledgement. */
static void keep_within_buffer(struct flow *flow, size_t length)
{
    flow->unacknowledged += length;
    if (!flow->marked && flow->unacknowledged >= buffer_bytes / 2) {
        NormSetWatermark(flow->session, flow->stream, true);
        flow->marked = true;
    }
    while (flow->unacknowledged + length > buffer_bytes)
        handle_sender_event();
}

static void send_message(int group, const uint8_t *message, size_t length)
{
    struct flow *flow = &flows[group];
    keep_within_buffer(flow, length);
    size_t written = 0;
    while (written < length) {
        written += NormStreamWrite(flow->stream, (const char *)message + written,
                                   (unsigned)(length - written));
        if (written < length)
            handle_sender_event();
    }
    NormStreamMarkEom(flow->stream);
    flow->dirty = true;
}

static void flush(void)
{
    for (int group = 0; group < group_count; group++) {
        if (flows[group].dirty)
            NormStreamFlush(flows[group].stream, false, NORM_FLUSH_ACTIVE);
        flows[group].dirty = false;
    }
}

static void open_receiver(const struct bench_options *options)
{
    open_common(options, (NormNodeId)(RECEIVER_IDS + options->index));
    unsigned sockets = (unsigned)bench_number("socket-buffer", 4 << 20);
    for (int group = 0; group < group_count; group++) {
        if (!NormStartReceiver(flows[group].session, (UINT32)buffer_bytes))
            bench_fail("NormStartReceiver", "refused");
        NormSetRxSocketBuffer(flows[group].session, sockets);
    }
}

/* All messages are equally long, so a stream that is once in step stays so. */
static void read_stream(NormObjectHandle stream)
{
    struct inlet *inlet = (struct inlet *)NormObjectGetUserData(stream);
    if (!inlet) {
        inlet = new struct inlet();
        inlet->bytes = static_cast<uint8_t *>(malloc(payload));
        NormObjectSetUserData(stream, inlet);
    }
    for (;;) {
        if (!inlet->synchronized) {
            if (!NormStreamSeekMsgStart(stream))
                return;
            inlet->synchronized = true;
            inlet->length = 0;
        }
        unsigned count = (unsigned)(payload - inlet->length);
        if (!NormStreamRead(stream, (char *)inlet->bytes + inlet->length, &count)) {
            inlet->synchronized = false;
            continue;
        }
        if (count == 0)
            return;
        inlet->length += count;
        if (inlet->length == payload) {
            bench_deliver(inlet->bytes, payload);
            inlet->length = 0;
        }
    }
}

static void receive(void)
{
    struct pollfd ready = {NormGetDescriptor(instance), POLLIN, 0};
    if (poll(&ready, 1, 10) <= 0)
        return;
    NormEvent event;
    if (!NormGetNextEvent(instance, &event, false))
        return;
    if (event.type == NORM_RX_OBJECT_NEW || event.type == NORM_RX_OBJECT_UPDATED)
        read_stream(event.object);
}

/* An orderly end would wait for timers; the parent has everything by now. */
static void close_all(void) { NormStopInstance(instance); }

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
