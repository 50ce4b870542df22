/* Publishes messages until it is killed: send-zeromq ADDRESS BYTES. It waits for slow readers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t length = strtoul(argv[2], NULL, 10);
    char *message = malloc(length);
    memset(message, 1, length);
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_PUB);
    int yes = 1, limit = 10000;
    if (zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &yes, sizeof yes) != 0
        || zmq_setsockopt(socket, ZMQ_SNDHWM, &limit, sizeof limit) != 0
        || zmq_bind(socket, argv[1]) != 0) {
        fprintf(stderr, "%s\n", zmq_strerror(zmq_errno()));
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        zmq_send(socket, message, length, 0);
}
