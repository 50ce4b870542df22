/* OpenPGM in UDP multicast, through its own API: one message a packet. */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <pgm/pgm.h>

enum { PACKET = 1500, MESSAGE_MAX = 1 << 17, NETWORK = 128, FDS = 16 };

static pgm_sock_t *pgm;
static pthread_t repairer;
static atomic_bool stopping;

static void set(int option, int value, const char *what)
{
    if (!pgm_setsockopt(pgm, IPPROTO_PGM, option, &value, sizeof value))
        bench_fail(what, "refused");
}

static void set_common(const struct bench_options *options)
{
    set(PGM_MTU, PACKET, "PGM_MTU");
    set(PGM_MULTICAST_LOOP, 1, "PGM_MULTICAST_LOOP");
    set(PGM_MULTICAST_HOPS, 1, "PGM_MULTICAST_HOPS");
    set(PGM_UDP_ENCAP_UCAST_PORT, options->port, "PGM_UDP_ENCAP_UCAST_PORT");
    set(PGM_UDP_ENCAP_MCAST_PORT, options->port, "PGM_UDP_ENCAP_MCAST_PORT");
    set(PGM_NOBLOCK, 1, "PGM_NOBLOCK");
    int buffer = (int)bench_number("socket-buffer", 4 << 20);
    if (!pgm_setsockopt(pgm, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) ||
        !pgm_setsockopt(pgm, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer))
        bench_fail("socket buffers", "refused");
}

/* The values of OpenPGM's examples for heartbeats, but windows of the size asked for. */
static void set_sender(void)
{
    int beats[] = {pgm_msecs(100), pgm_msecs(100), pgm_msecs(100),  pgm_msecs(100),
                   pgm_msecs(1300), pgm_secs(7),   pgm_secs(16),    pgm_secs(25),
                   pgm_secs(30)};
    set(PGM_SEND_ONLY, 1, "PGM_SEND_ONLY");
    set(PGM_TXW_SQNS, (int)bench_number("window", 100000), "PGM_TXW_SQNS");
    set(PGM_TXW_MAX_RTE, (int)bench_number("rate-kbyte", 500000) * 1000, "PGM_TXW_MAX_RTE");
    set(PGM_AMBIENT_SPM, pgm_secs(30), "PGM_AMBIENT_SPM");
    if (!pgm_setsockopt(pgm, IPPROTO_PGM, PGM_HEARTBEAT_SPM, beats, sizeof beats))
        bench_fail("PGM_HEARTBEAT_SPM", "refused");
}

static void set_receiver(void)
{
    set(PGM_RECV_ONLY, 1, "PGM_RECV_ONLY");
    set(PGM_RXW_SQNS, (int)bench_number("window", 100000), "PGM_RXW_SQNS");
    set(PGM_PEER_EXPIRY, pgm_secs(300), "PGM_PEER_EXPIRY");
    set(PGM_SPMR_EXPIRY, pgm_msecs(250), "PGM_SPMR_EXPIRY");
    set(PGM_NAK_BO_IVL, pgm_msecs(50), "PGM_NAK_BO_IVL");
    set(PGM_NAK_RPT_IVL, pgm_msecs(200), "PGM_NAK_RPT_IVL");
    set(PGM_NAK_RDATA_IVL, pgm_msecs(200), "PGM_NAK_RDATA_IVL");
    set(PGM_NAK_DATA_RETRIES, 50, "PGM_NAK_DATA_RETRIES");
    set(PGM_NAK_NCF_RETRIES, 50, "PGM_NAK_NCF_RETRIES");
}

static void join(const struct bench_options *options)
{
    char network[NETWORK];
    snprintf(network, sizeof network, "%s;239.255.89.1", options->address);
    struct pgm_addrinfo_t *addresses = NULL;
    pgm_error_t *error = NULL;
    if (!pgm_getaddrinfo(network, NULL, &addresses, &error))
        bench_fail(network, error->message);
    struct pgm_sockaddr_t own = {.sa_port = DEFAULT_DATA_DESTINATION_PORT};
    char name[NETWORK];
    snprintf(name, sizeof name, "bench-%d-%d-%d", options->port, options->sends, options->index);
    pgm_gsi_create_from_string(&own.sa_addr.gsi, name, -1);
    struct pgm_interface_req_t interface = {
        .ir_interface = addresses->ai_recv_addrs[0].gsr_interface,
    };
    struct sockaddr_in *address = (struct sockaddr_in *)&interface.ir_address;
    address->sin_family = AF_INET;
    inet_pton(AF_INET, options->address, &address->sin_addr);
    if (!pgm_bind3(pgm, &own, sizeof own, &interface, sizeof interface, &interface,
                   sizeof interface, &error))
        bench_fail("pgm_bind3", error->message);
    for (unsigned i = 0; i < addresses->ai_recv_addrs_len; i++)
        pgm_setsockopt(pgm, IPPROTO_PGM, PGM_JOIN_GROUP, &addresses->ai_recv_addrs[i],
                       sizeof(struct group_req));
    pgm_setsockopt(pgm, IPPROTO_PGM, PGM_SEND_GROUP, &addresses->ai_send_addrs[0],
                   sizeof(struct group_req));
    pgm_freeaddrinfo(addresses);
    if (!pgm_connect(pgm, &error))
        bench_fail("pgm_connect", error->message);
}

static void open_socket(const struct bench_options *options)
{
    pgm_error_t *error = NULL;
    if (!pgm_init(&error))
        bench_fail("pgm_init", error->message);
    if (!pgm_socket(&pgm, AF_INET, SOCK_SEQPACKET, IPPROTO_UDP, &error))
        bench_fail("pgm_socket", error->message);
    set_common(options);
    if (options->sends)
        set_sender();
    else
        set_receiver();
    join(options);
}

/* Waits until the socket has something or, if `status` says that a timer runs, until it ends; at
 * most some milliseconds. */
static void wait_after(int status)
{
    struct pollfd fds[FDS];
    int count = FDS;
    if (pgm_poll_info(pgm, fds, &count, POLLIN) < 0)
        bench_fail("pgm_poll_info", "failed");
    struct timespec longest = {0, 10000000};
    int option = status == PGM_IO_STATUS_TIMER_PENDING  ? PGM_TIME_REMAIN
                 : status == PGM_IO_STATUS_RATE_LIMITED ? PGM_RATE_REMAIN
                                                        : 0;
    struct timeval left;
    socklen_t length = sizeof left;
    if (option && pgm_getsockopt(pgm, IPPROTO_PGM, option, &left, &length) && left.tv_sec == 0 &&
        left.tv_usec * 1000 < longest.tv_nsec)
        longest.tv_nsec = left.tv_usec * 1000;
    ppoll(fds, (nfds_t)count, &longest, NULL);
}

/* A sender answers requests for repair only while somebody receives on its socket. */
static void *repair(void *unused)
{
    static char nothing[MESSAGE_MAX];
    while (!atomic_load(&stopping)) {
        size_t length;
        pgm_error_t *error = NULL;
        int status = pgm_recv(pgm, nothing, sizeof nothing, MSG_DONTWAIT, &length, &error);
        if (error)
            pgm_error_free(error);
        if (status != PGM_IO_STATUS_NORMAL)
            wait_after(status);
    }
    return unused;
}

static void open_sender(const struct bench_options *options)
{
    open_socket(options);
    if (pthread_create(&repairer, NULL, repair, NULL) != 0)
        bench_fail("pthread_create", "no thread");
}

static void open_receiver(const struct bench_options *options) { open_socket(options); }

static void send_message(int group, const uint8_t *message, size_t length)
{
    (void)group;
    for (;;) {
        int status = pgm_send(pgm, message, length, NULL);
        if (status == PGM_IO_STATUS_NORMAL)
            return;
        if (status != PGM_IO_STATUS_WOULD_BLOCK && status != PGM_IO_STATUS_RATE_LIMITED)
            bench_fail("pgm_send", "failed");
        struct pollfd fds[FDS];
        int count = FDS;
        pgm_poll_info(pgm, fds, &count, POLLOUT);
        poll(fds, (nfds_t)count, 1);
    }
}

static void receive(void)
{
    static uint8_t message[MESSAGE_MAX];
    size_t length;
    pgm_error_t *error = NULL;
    int status = pgm_recv(pgm, message, sizeof message, MSG_DONTWAIT, &length, &error);
    if (status == PGM_IO_STATUS_NORMAL)
        bench_deliver(message, length);
    else if (status == PGM_IO_STATUS_RESET || status == PGM_IO_STATUS_ERROR) {
        /* What was lost is lost; the count will show it. */
        if (error)
            pgm_error_free(error);
    } else
        wait_after(status);
}

static void close_all(void)
{
    if (repairer) {
        atomic_store(&stopping, true);
        pthread_join(repairer, NULL);
    }
    pgm_close(pgm, false);
    pgm_shutdown();
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
