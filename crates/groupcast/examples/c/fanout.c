/* Sends a line to sockets on loopback, each with a number of its own in front:
 *   cc fanout.c $(pkg-config --cflags --libs groupcast) && ./a.out */
#include <arpa/inet.h>
#include <errno.h>
#include <groupcast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 16

int main(void)
{
    struct giobuf *group = calloc(1, sizeof *group + (CLIENTS + 1) * sizeof *group->recinfo);
    int errors[CLIENTS + 2], client[CLIENTS], sd = socket(AF_INET, SOCK_DGRAM, 0);
    char number[CLIENTS][4], line[] = "hello", got[64], want[64];

    for (int i = 0; i < CLIENTS; i++) {
        struct giovec *to = &group->recinfo[i];
        socklen_t len = sizeof to->giov_dest;
        client[i] = socket(AF_INET, SOCK_DGRAM, 0);
        to->giov_dest.sin_family = AF_INET;
        to->giov_dest.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(client[i], (void *)&to->giov_dest, len) ||
            getsockname(client[i], (void *)&to->giov_dest, &len))
            return perror("a client"), 1;
        snprintf(number[i], sizeof number[i], "%02d ", i);
        to->giov_prepend = (struct iovec){ number[i], 3 };
    }
    group->shared = (struct iovec){ line, strlen(line) };
    /* One that cannot be reached: port 0. */
    group->recinfo[CLIENTS].giov_dest.sin_family = AF_INET;

    int sent = sendgroup(sd, group, CLIENTS + 1, 0, errors);
    printf("%s: sent to %d of %d, the last: %s\n", sendgroup_backend(sd), sent, CLIENTS + 1,
           strerror(errors[CLIENTS]));
    if (sent != CLIENTS || errors[0] || errors[CLIENTS] != EINVAL)
        return 1;
    for (int i = 0; i < CLIENTS; i++) {
        ssize_t len = recv(client[i], got, sizeof got - 1, 0);
        got[len < 0 ? 0 : len] = 0;
        snprintf(want, sizeof want, "%s%s", number[i], line);
        if (strcmp(got, want))
            return printf("client %d got \"%s\"\n", i, got), 1;
    }
    if (sendgroup(sd, group, 0, 0, NULL) != -1 || errno != EDESTADDRREQ)
        return 1;
    if (sendgroup(-1, group, 1, 0, NULL) != -1 || errno != EBADF)
        return 1;
    sendgroup_forget(sd);
    close(sd);
    puts("every client got its line");
    return 0;
}
