/* sendgroup(): one payload to many UDP recipients in one call.
 *
 * Signature and structures are those of Lahav, Karsten, Brecht, Wang, Zhao: "Group Unicast for the
 * Real World", NOSSDAV 2008. Link with `pkg-config --libs groupcast`. */
#ifndef GROUPCAST_H
#define GROUPCAST_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct giovec {
    /* Destination address. */
    struct sockaddr_in giov_dest;
    /* The prepended data. */
    struct iovec giov_prepend;
    /* The appended data. */
    struct iovec giov_append;
};

struct giobuf {
    /* Shared data buffer. */
    struct iovec shared;
    /* Per-recipient information: allocate as many as there are recipients. */
    struct giovec recinfo[1];
};

/* Sends buf->shared to recnum recipients by the UDP socket sd of IPv4, with the flags of sendmsg(2).
 * Returns the number of recipients that a datagram left for. If gerrno is not null, it has room for
 * recnum numbers, and tells for each recipient 0 or the errno that sendmsg(2) would have given.
 * Returns -1 with errno if nothing could be sent: EDESTADDRREQ without recipients, E2BIG with more
 * than 100,000, EMSGSIZE for a payload that no datagram holds, EOPNOTSUPP for MSG_MORE and
 * MSG_ZEROCOPY. A recipient whose address is not of AF_INET (or AF_UNSPEC) gets EAFNOSUPPORT. May be
 * called from several threads, and after a fork from both processes. */
int sendgroup(int sd, const struct giobuf *buf, size_t recnum, int flags, int *gerrno);

/* The back-end in use for a socket: "ebpf", "connected", "io_uring",
 * "io_uring-zc", "sendmmsg" or "loop". */
const char *sendgroup_backend(int sd);

/* Lets go of what is kept about a socket, and switches IP_RECVERR off again unless it was on before.
 * Call it before closing the socket. */
void sendgroup_forget(int sd);

#ifdef __cplusplus
}
#endif
#endif
