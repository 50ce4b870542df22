/* What every C and C++ program of the comparison shares: command line, dialogue with the parent,
 * load, and verification. A system only opens, sends and receives.
 *
 *   PROGRAM send|receive --interface lo --address 127.0.0.1 --senders 127.0.0.1,... --receivers N
 *           --index I --port P --groups K --payload BYTES [--set NAME=VALUE]...
 *           [--common C] [--wants GROUP,...] [--audience RECEIVERS,...]
 *
 * All receivers have the first C groups, K if it is not said. Of the others, the rare ones, a receiver
 * has those that it wants, and no message of the rest may come to it; a sender is told how many
 * receivers each has, and gives them every hundredth message, in turn.
 *
 * Dialogue, a line each; the parent speaks on standard input:
 *
 *   sender    ready; "probe" -> probed; "go PHASE MILLIS RATE" -> sent {json}; "end"
 *             where there are rare groups, "rare" in the json has the messages to each
 *   receiver  ready; heard; "await PHASE COUNT" -> received {json}; "end"
 *
 * A probe is one message on every group. A receiver has `heard` when each group has brought one
 * from each sender: from then on nothing may be missed. RATE is messages per second, 0 for as many
 * as the system takes.
 *
 * Message, little-endian:
 *
 *   0   number in (phase, sender, group) from 1: 48 bits | phase: 8 | sender: 8
 *   8   time at which it was due, ns: 44 bits, 0 without a rate | group: 20
 *   16  a pattern that depends on the offset
 *   -8  the first word again, in messages of 24 bytes and more
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_SENDERS_MAX 8
#define BENCH_RARE_EVERY 100 /* messages to a rare group */
#define BENCH_PORTS 16 /* from `port` on, this run's own */

struct bench_options {
    bool sends;
    const char *interface;
    const char *address;
    const char *senders[BENCH_SENDERS_MAX]; /* addresses */
    int sender_count;
    int receivers;
    int index; /* among the senders or the receivers */
    int port;
    int groups;
    int common; /* of them, those that all receivers have */
    size_t payload;
};

struct bench_system {
    void (*open_sender)(const struct bench_options *options);
    void (*open_receiver)(const struct bench_options *options);
    /* Waits until the system has accepted the message. */
    void (*send)(int group, const uint8_t *message, size_t length);
    /* Pushes out what is still collected: at the end, and after each message at a fixed rate. NULL
     * if nothing is. */
    void (*flush)(void);
    /* Gives what has come to `bench_deliver`; waits some milliseconds if nothing has. */
    void (*receive)(void);
    void (*close)(void);
};

/* The value of `--set NAME=VALUE`, or `otherwise`. */
const char *bench_setting(const char *name, const char *otherwise);
long bench_number(const char *name, long otherwise);

/* Does this receiver have the group? */
bool bench_wants(int group);

/* How many receivers the group has. */
int bench_audience(int group);

/* Checks and counts one message. Calls must not overlap. */
void bench_deliver(const uint8_t *message, size_t length);

/* Ends the program with a reason on standard error. */
void bench_fail(const char *what, const char *why) __attribute__((noreturn));

/* CLOCK_MONOTONIC, ns: one clock for all processes of a machine. */
uint64_t bench_now(void);

int bench_main(int argc, char **argv, const struct bench_system *system);

#ifdef __cplusplus
}
#endif

#endif
