/* Quicksilver for C: reliable multicast to thousands of overlapping groups.
 *
 * Made from crates/qsm-capi; its guide is docs/guides/c.md. Link with -lqsm.
 *
 * Calls return 0, or the number of an error: those of this header, or of the table in
 * docs/reference/errors.md. qsm_error() has its text. No thread of the library calls the program.
 */

#ifndef QSM_H
#define QSM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

// Number of this interface, raised when programs have to be compiled anew: the one that the
// library has, to be compared with `QSM_ABI`, which the program was compiled with.
#define QSM_ABI 2

// The kind of an event; the library's manual has them all (`qsm::Event`).
enum qsm_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // None came in time.
  QSM_EVENT_KIND_NONE = 0,
  // An interface has no address any more, or is down.
  QSM_EVENT_KIND_ADDRESS_LOST = 1,
  // The node is a member.
  QSM_EVENT_KIND_ADMITTED = 2,
  // A region does not wait for the node any more.
  QSM_EVENT_KIND_AWAY = 3,
  // It has caught up, and is waited for again.
  QSM_EVENT_KIND_BACK = 4,
  // Damaged datagrams came.
  QSM_EVENT_KIND_DAMAGED = 5,
  // The node has ended. The last event.
  QSM_EVENT_KIND_CLOSED = 6,
  // Multicast does not reach a member.
  QSM_EVENT_KIND_DEAF = 7,
  // It does again.
  QSM_EVENT_KIND_HEARS = 8,
  // Events that were not read in time.
  QSM_EVENT_KIND_DROPPED = 9,
  // The cluster took the node for dead; it begins a new life.
  QSM_EVENT_KIND_EXCLUDED = 10,
  // It has another address.
  QSM_EVENT_KIND_MOVED = 11,
  // A multicast address cannot be received.
  QSM_EVENT_KIND_NOT_LISTENING = 12,
  // A region has a new view.
  QSM_EVENT_KIND_REGION_VIEW = 13,
  // The node runs a membership service.
  QSM_EVENT_KIND_SERVICE_EMBEDDED = 14,
  // A membership service answers.
  QSM_EVENT_KIND_SERVICE_FOUND = 15,
  // It does not.
  QSM_EVENT_KIND_SERVICE_LOST = 16,
  // The node's own service could not start.
  QSM_EVENT_KIND_SERVICE_NOT_EMBEDDED = 17,
  // It has given way to another.
  QSM_EVENT_KIND_SERVICE_YIELDED = 18,
  // Messages that were accepted are not sent any more.
  QSM_EVENT_KIND_UNCONFIRMED = 19,
  // Receivers are gone that are not known to have everything.
  QSM_EVENT_KIND_UNSERVED = 20,
  // Something that this version of the interface has no name for; its text says it.
  QSM_EVENT_KIND_OTHER = 21,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_event_kind qsm_event_kind;
#else
typedef uint32_t qsm_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of a line.
enum qsm_line_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // An entry.
  QSM_LINE_KIND_ENTRY = 1,
  // `missed` entries came and had to go before they were polled.
  QSM_LINE_KIND_MISSED = 2,
  // Something that this version of the interface has no name for.
  QSM_LINE_KIND_OTHER = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_line_kind qsm_line_kind;
#else
typedef uint32_t qsm_line_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of an entry.
enum qsm_change
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The key has this value.
  QSM_CHANGE_SET = 1,
  // The key is gone.
  QSM_CHANGE_REMOVED = 2,
  // Entries went unseen: those that follow are all there are.
  QSM_CHANGE_RESTART = 3,
  // Something that this version of the interface has no name for.
  QSM_CHANGE_OTHER = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_change qsm_change;
#else
typedef uint32_t qsm_change;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of an item.
enum qsm_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // A message.
  QSM_KIND_MESSAGE = 1,
  // Messages `number` to `last` of the sender in the group will never come.
  QSM_KIND_LOST = 2,
  // `last` packets of the sender, which is gone, are lost; which messages were in them is not
  // known.
  QSM_KIND_LOST_PACKETS = 3,
  // `last` messages were dropped, because this subscription's queue was full.
  QSM_KIND_DROPPED = 4,
  // The node was away for `last` milliseconds, and has caught up: nothing is missing here.
  QSM_KIND_BACK = 5,
  // The node was away for too long and has begun a new life: something may be missing here.
  QSM_KIND_EXCLUDED = 6,
  // Something that this version of the interface has no name for.
  QSM_KIND_OTHER = 7,
  // Messages `number` to `last` of the sender in the group were asked for of the past, and come
  // neither way.
  QSM_KIND_NOT_KEPT = 8,
  // The past of the group has come: `number` messages from keepers; `last` are not kept, and were
  // told before. `sender` is the number of keepers that answered. Messages go on live.
  QSM_KIND_JOINED = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_kind qsm_kind;
#else
typedef uint32_t qsm_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why messages are lost.
enum qsm_cause
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Nothing is lost.
  QSM_CAUSE_NONE = 0,
  // Nobody has them any more.
  QSM_CAUSE_GONE = 1,
  // They were sent while the node was excluded.
  QSM_CAUSE_EXCLUDED = 2,
  // They were missing for longer than the subscription waits.
  QSM_CAUSE_OVERDUE = 3,
  // They were missing when their lifetime was over.
  QSM_CAUSE_EXPIRED = 4,
  // Something that this version of the interface has no name for.
  QSM_CAUSE_OTHER = 5,
  // Nobody keeps the group, or no keeper answers.
  QSM_CAUSE_NO_KEEPER = 6,
  // More came live than there was room to hold while older messages were fetched.
  QSM_CAUSE_HELD = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_cause qsm_cause;
#else
typedef uint32_t qsm_cause;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Codes of this interface.
enum Own
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint16_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  OWN_OK = 0,
  // A pointer is null that must not be.
  OWN_NULL = 1701,
  // A text is not UTF-8.
  OWN_TEXT = 1702,
  // There is no such setting, or the text is no value of it.
  OWN_SETTING = 1703,
  // The library has a fault: it panicked, and the call did nothing more.
  OWN_PANICKED = 1704,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum Own Own;
#else
typedef uint16_t Own;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The order in which messages come, and how long they wait for each other.
enum qsm_delivery
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // In each sender's order; what is missing is waited for.
  QSM_DELIVERY_ORDERED = 0,
  // As they arrive.
  QSM_DELIVERY_ARRIVAL = 1,
  // In each sender's order, but nothing is waited for longer than `within_us`.
  QSM_DELIVERY_WITHIN = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_delivery qsm_delivery;
#else
typedef uint32_t qsm_delivery;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The policy of a full queue.
enum qsm_overflow
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The message that finds no room is dropped.
  QSM_OVERFLOW_DROP_NEWEST = 0,
  // The oldest messages are dropped to make room.
  QSM_OVERFLOW_DROP_OLDEST = 1,
  // The subscription ends.
  QSM_OVERFLOW_DISCONNECT = 2,
  // Nothing is dropped: publishers to the groups wait, as their pace says.
  QSM_OVERFLOW_HOLD = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum qsm_overflow qsm_overflow;
#else
typedef uint32_t qsm_overflow;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Memory that entries point to.
typedef struct qsm_entry_loan qsm_entry_loan;

// A reader of a node's events.
typedef struct qsm_events qsm_events;

// A keeper of some groups' last messages.
typedef struct qsm_keeper qsm_keeper;

// Memory that lines point to.
typedef struct qsm_line_loan qsm_line_loan;

// What a batch points to.
typedef struct qsm_loan qsm_loan;

// A live log.
typedef struct qsm_log qsm_log;

// A live map.
typedef struct qsm_map qsm_map;

// A node.
typedef struct qsm_node qsm_node;

// A publisher to one group.
typedef struct qsm_publisher qsm_publisher;

// Settings of a node to be started.
typedef struct qsm_settings qsm_settings;

// A subscription to groups.
typedef struct qsm_subscription qsm_subscription;

// Outcome of a call: 0, or the number of an error, of the library or of this interface.
typedef uint16_t qsm_code;

// An event.
typedef struct {
  // The kind.
  qsm_event_kind kind;
  // One line for people, which lasts until the reader's next event; null without an event.
  const char *text;
} qsm_event;

// Bounds of a log. Those of the program that founds it hold for all. Zeros are the defaults.
typedef struct {
  // Most entries, of which the newest stay; 0 for the default, 10,000.
  size_t entries;
  // Most bytes of entries, likewise; 0 for the default, 16 MiB.
  size_t bytes;
} qsm_log_bounds;

// An entry of a log, or what was missed. Its pointer lasts until its batch is released.
typedef struct {
  // The kind.
  qsm_line_kind kind;
  // When it was written, by its writer's clock: microseconds since 1970.
  uint64_t time_us;
  // Number of its writer, by chance.
  uint64_t writer;
  // Number of entries missed.
  uint64_t missed;
  // Content of the entry.
  const uint8_t *data;
  // Its length, bytes.
  size_t length;
} qsm_line;

// Lines lent to the program until `qsm_lines_release`.
typedef struct {
  // The lines, in order.
  const qsm_line *lines;
  // Their number.
  size_t count;
  // The library's.
  qsm_line_loan *owner;
} qsm_lines;

// Bounds of a map. Those of the program that founds it hold for all. Zeros are the defaults.
typedef struct {
  // Most bytes of keys and values, beyond which nobody may add to it; 0 for the default, 64 MiB.
  size_t bytes;
  // Most keys that were removed and are remembered; 0 for the default, 65,536.
  size_t removed;
} qsm_map_bounds;

// An entry of a map, or a change of one. Its pointers last until its batch is released.
typedef struct {
  // The kind.
  qsm_change kind;
  // Length of the key, bytes.
  uint32_t key_length;
  // The key, UTF-8, without a nul at its end; null where there is none.
  const char *key;
  // The value; null where there is none.
  const uint8_t *value;
  // Its length, bytes.
  size_t length;
} qsm_entry;

// Entries lent to the program until `qsm_entries_release`.
typedef struct {
  // The entries, in order.
  const qsm_entry *entries;
  // Their number.
  size_t count;
  // The library's.
  qsm_entry_loan *owner;
} qsm_entries;

// What receivers have, as `qsm_flush` found it.
typedef struct {
  // Entries about receivers that are gone and not known to have everything.
  uint64_t unserved;
  // Further such receivers, of whom nothing exact is kept.
  uint64_t more;
  // Entries about receivers that are away and lack something that is kept for them.
  uint64_t away;
} qsm_flushed;

// Place from which messages begin. Zeros are: those that are sent from now on, and a position from
// the beginning.
typedef struct {
  // Begin with the last messages of each sender, so many of each, as far as keepers have them.
  uint64_t last;
  // Go on behind this position, as `qsm_position` wrote it; `last` does not count then. Null
  // for none.
  const char *resume;
  // Most memory of live messages that wait for older ones, bytes, of each group; 0 for the
  // default, 64 MiB.
  size_t held_bytes;
} qsm_past;

// Limits of a subscription's queue, and how messages come to it. Zeros are the defaults.
typedef struct {
  // Most memory of messages that wait, bytes; 0 for the default, 64 MiB.
  size_t bytes;
  // Most messages that wait; 0 for no limit.
  size_t messages;
  // One of `qsm_overflow`.
  uint32_t overflow;
  // One of `qsm_delivery`.
  uint32_t delivery;
  // With `QSM_DELIVERY_WITHIN`, the longest wait for what is missing, microseconds.
  uint64_t within_us;
} qsm_queue;

// Bounds of what a keeper keeps of each group, and sends. Zeros are the defaults.
typedef struct {
  // Most messages of each sender; 0 for the default, 1,000.
  size_t messages;
  // Most memory of all messages, bytes, with 96 bytes for each; 0 for the default, 64 MiB.
  size_t bytes;
  // Longest time for which a message is kept, milliseconds; 0 for no limit.
  uint64_t age_ms;
  // Bytes a second that it sends to all that join; 0 for the default, 16 MiB.
  uint64_t bytes_per_second;
} qsm_bounds;

// State of a keeper, of all its groups together.
typedef struct {
  // Messages kept now.
  uint64_t messages;
  // Memory that they take, bytes, with 96 bytes for each.
  uint64_t bytes;
  // Senders known now.
  uint64_t senders;
  // Messages sent to subscribers, in all.
  uint64_t sent_messages;
  // Questions not served, because too many others were, in all.
  uint64_t refused;
} qsm_keeping;

// How long messages of a publisher may wait for others in their packet. The message that may wait
// least decides when its packet leaves; a full packet never waits.
typedef struct {
  // Longest wait, microseconds; 0 for none.
  uint64_t delay_us;
  // Length from which on a packet does not wait, bytes, its header included; 0 for that of a full
  // one.
  size_t bytes;
} qsm_batching;

// A message, or what is missing before the next one. Its pointers last until its batch is released.
typedef struct {
  // The kind, which says what the other fields mean.
  qsm_kind kind;
  // Length of the group's name, bytes.
  uint32_t group_length;
  // Name of the group, without a nul at its end; null where there is none.
  const char *group;
  // Node that sent it.
  uint64_t sender;
  // Life of that node.
  uint64_t incarnation;
  // Of a message its number among this sender's messages to this group, from 1; the first that is
  // lost.
  uint64_t number;
  // As the kind says.
  uint64_t last;
  // Content of a message.
  const uint8_t *data;
  // Its length, bytes.
  size_t length;
  // Of messages that are lost or not kept, why.
  qsm_cause cause;
} qsm_item;

// Messages lent to the program until `qsm_release`.
typedef struct {
  // The items, in order.
  const qsm_item *items;
  // Their number; 0 when nothing came in time.
  size_t count;
  // The library's.
  qsm_loan *owner;
} qsm_batch;

// All of them.
#define Own_ALL { Own_Ok, Own_Null, Own_Text, Own_Setting, Own_Panicked, }

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The number of the interface that the library has: `ABI`.
uint32_t qsm_abi(void);

// The library's version, such as `0.2.0`.
const char *qsm_version(void);

// Text of the last error that a call of this thread returned, cause and remedy; empty before the
// first. It lasts until the thread's next error.
const char *qsm_error(void);

// Length of a code's meaning and remedy, in bytes, without the nul; writes as much of it as
// `size` bytes hold, and a nul. 0 of a number that is no code.
//
// Requires:
// `place` points to `size` bytes, or `size` is 0.
size_t qsm_meaning(qsm_code code, char *place, size_t size);

// Begins to read the events of a node: those that come from now on.
//
// Requires:
// `node` is of this library; `events` may be written to.
qsm_code qsm_events_new(const qsm_node *node, qsm_events **events);

// The next event; waits so many milliseconds for it, or for ever if negative. An error says that no
// more will come.
//
// Requires:
// `events` is of this library; `event` may be written to.
qsm_code qsm_next_event(const qsm_events *events, int64_t milliseconds, qsm_event *event);

// Name of the latest event's kind, such as `Admitted`, also of one without a number of its own: its
// length in bytes, without the nul; writes as much of it as `size` bytes hold, and a nul. 0 before the
// first.
//
// Requires:
// `events` is null or of this library; `place` points to `size` bytes, or `size` is 0.
size_t qsm_event_name(const qsm_events *events,
                      char *place,
                      size_t size);

// Gives up the handle.
//
// Requires:
// `events` is null, or of this library and not used any more.
void qsm_events_free(qsm_events *events);

// Enters the log of a group, as `qsm_map_open` a map.
//
// Requires:
// `node` is of this library; `group` is a text; `bounds` is null or to be read; `log` may be
// written to.
qsm_code qsm_log_open(const qsm_node *node,
                      const char *group,
                      const qsm_log_bounds *bounds,
                      qsm_log **log);

// Waits until the log is live, as `qsm_map_wait_live` of a map.
//
// Requires:
// `log` is of this library.
qsm_code qsm_log_wait_live(const qsm_log *log, int64_t milliseconds);

// Appends an entry. It is copied, is in this log at once, and in the others when it comes, as of
// `qsm_map_put`. It is behind all entries that this log had.
//
// Requires:
// `log` is of this library; `data` points to `length` bytes.
qsm_code qsm_log_append(const qsm_log *log, const void *data, size_t length);

// Lends a copy of all entries at one moment, the oldest first.
//
// Requires:
// `log` is of this library; `lines` may be written to.
qsm_code qsm_log_snapshot(const qsm_log *log, qsm_lines *lines);

// Number of entries.
//
// Requires:
// `log` is null or of this library.
uint64_t qsm_log_length(const qsm_log *log);

// Takes what has come, at most `most` lines: at first the entries that are there, then those that come, its own as well, in
// the order in which they come here. If there is nothing, waits for the first: so many milliseconds, or for ever if
// negative; then the batch is empty. Entries that had to go before they were taken are counted, so a program that does not
// poll costs no memory and delays nobody. An error says that the log has ended.
//
// Requires:
// `log` is of this library; `lines` may be written to.
qsm_code qsm_log_poll(const qsm_log *log,
                      size_t most,
                      int64_t milliseconds,
                      qsm_lines *lines);

// Gives lines back, from any thread; there are none then. Of none, nothing. They outlive their log.
//
// Requires:
// `lines` is null, or was filled by this library, and what it lent is not used any more.
void qsm_lines_release(qsm_lines *lines);

// A descriptor for `poll` or `epoll`, as `qsm_map_fd` of a map.
//
// Requires:
// `log` is of this library.
int qsm_log_fd(const qsm_log *log);

// Counters of a log, as `qsm_map_stats` of a map.
//
// Requires:
// `log` is null or of this library; `place` points to `size` bytes, or `size` is 0.
size_t qsm_log_stats(const qsm_log *log, char *place, size_t size);

// Leaves the log, and gives up the handle. Lines that it has lent stay until they are released.
//
// Requires:
// `log` is null, or of this library and not used any more.
void qsm_log_close(qsm_log *log);

// Enters the map of a group. It returns before the state is here: `qsm_map_wait_live`. A node has one map of a group at
// most. Without bounds (null) they are the defaults.
//
// Requires:
// `node` is of this library; `group` is a text; `bounds` is null or to be read; `map` may be
// written to.
qsm_code qsm_map_open(const qsm_node *node,
                      const char *group,
                      const qsm_map_bounds *bounds,
                      qsm_map **map);

// Waits so many milliseconds until the map is live: its state is that of the others, and follows every change. If it is not,
// the code is `QSM_REPLICA_NOT_LIVE`; another error says that it has ended, and why. Negative: until one or the other, a
// minute and a half at most. A map that is live may cease to be, while it binds anew.
//
// Requires:
// `map` is of this library.
qsm_code qsm_map_wait_live(const qsm_map *map,
                           int64_t milliseconds);

// Sets the value of a key: UTF-8, 1024 bytes at most. It is copied, is in this map at once, and in the others when it comes;
// `qsm_flush` says when it is in all. It waits only where the queue to the node is full. A write that was made just before
// this map bound anew may be lost, here as well.
//
// Requires:
// `map` is of this library; `key` points to `key_length` bytes, and `value` to `length`.
qsm_code qsm_map_put(const qsm_map *map,
                     const char *key,
                     size_t key_length,
                     const void *value,
                     size_t length);

// Removes a key, if it is there, as `qsm_map_put` sets it.
//
// Requires:
// `map` is of this library; `key` points to `key_length` bytes.
qsm_code qsm_map_remove(const qsm_map *map, const char *key, size_t key_length);

// Lends the entry of a key, or nothing if it has none. Of a map that is not live, what it has is old, or incomplete.
//
// Requires:
// `map` is of this library; `key` points to `key_length` bytes; `entries` may be written to.
qsm_code qsm_map_get(const qsm_map *map,
                     const char *key,
                     size_t key_length,
                     qsm_entries *entries);

// Lends a copy of all entries at one moment, in the order of their keys.
//
// Requires:
// `map` is of this library; `entries` may be written to.
qsm_code qsm_map_snapshot(const qsm_map *map, qsm_entries *entries);

// Number of entries.
//
// Requires:
// `map` is null or of this library.
uint64_t qsm_map_length(const qsm_map *map);

// Takes what has changed, at most `most` entries: at first those that are there, then what changes, its own writes as well.
// If there is nothing, waits for the first: so many milliseconds, or for ever if negative; then the batch is empty. Of
// several changes to a key that were not taken the last one is told, so a program that does not poll costs no memory and
// delays nobody. An error says that the map has ended.
//
// Requires:
// `map` is of this library; `entries` may be written to.
qsm_code qsm_map_poll(const qsm_map *map,
                      size_t most,
                      int64_t milliseconds,
                      qsm_entries *entries);

// Gives entries back, from any thread; there are none then. Of none, nothing. They outlive their map.
//
// Requires:
// `entries` is null, or was filled by this library, and what it lent is not used any more.
void qsm_entries_release(qsm_entries *entries);

// A descriptor for `poll` or `epoll`: readable while `qsm_map_poll` has something to take, or the end to tell, and now and
// then without. It is the library's, as that of `qsm_subscription_fd`. -1 if the process has no descriptor left.
//
// Requires:
// `map` is of this library.
int qsm_map_fd(const qsm_map *map);

// Counters of a map, as one object of JSON; the guide to replicas describes them. Its length in bytes, without the nul;
// writes as much of it as `size` bytes hold, and a nul.
//
// Requires:
// `map` is null or of this library; `place` points to `size` bytes, or `size` is 0.
size_t qsm_map_stats(const qsm_map *map,
                     char *place,
                     size_t size);

// Leaves the map, and gives up the handle. Entries that it has lent stay until they are released.
//
// Requires:
// `map` is null, or of this library and not used any more.
void qsm_map_close(qsm_map *map);

// Starts a node. Without settings (null) all are defaults. The settings may be used again.
//
// Requires:
// `settings` is null or of this library; `node` may be written to.
qsm_code qsm_start(const qsm_settings *settings, qsm_node **node);

// Attaches to the shared engine at a path (`qsm engine --at PATH`).
//
// Requires:
// `path` is a text; `node` may be written to.
qsm_code qsm_attach(const char *path, qsm_node **node);

// Waits so many milliseconds until the node is a member of its cluster (negative: for ever).
//
// Requires:
// `node` is of this library.
qsm_code qsm_wait_admitted(const qsm_node *node, int64_t milliseconds);

// Waits until all live receivers have what the node was given to send, at most so many milliseconds
// (negative: for ever). `flushed`, if not null, says who has not.
//
// Requires:
// `node` is of this library; `flushed` is null or may be written to.
qsm_code qsm_flush(const qsm_node *node, int64_t milliseconds, qsm_flushed *flushed);

// Sends what is left, at most so many milliseconds long, and ends the node: all its handles say so
// from then on. `flushed` as in `qsm_flush`.
//
// Requires:
// As of `qsm_flush`.
qsm_code qsm_shutdown(const qsm_node *node, int64_t milliseconds, qsm_flushed *flushed);

// Receivers that the last `qsm_flush` or `qsm_shutdown` of this thread found to lack something:
// a line for each entry, first those that are gone, then those that are away; empty without any. It
// lasts until the thread's next one.
const char *qsm_lacking(void);

// The node's number in its cluster; 0 of null.
//
// Requires:
// `node` is null or of this library.
uint64_t qsm_node_id(const qsm_node *node);

// Why the node has ended: the length of the reason in bytes, without the nul; writes as much of it
// as `size` bytes hold, and a nul. 0 while it runs.
//
// Requires:
// `node` is null or of this library; `place` points to `size` bytes, or `size` is 0.
size_t qsm_closed(const qsm_node *node, char *place, size_t size);

// Gives up the handle. The node ends when its last handle does: subscriptions, publishers and
// readers of events are handles too. What it was given to send before is sent if
// `qsm_shutdown` was called.
//
// Requires:
// `node` is null, or of this library and not used any more.
void qsm_node_free(qsm_node *node);

// Subscribes to groups, by name, with what was sent before. The queue is that of live messages, as
// in `qsm_subscribe`, and each sender's messages come in their order.
//
// Requires:
// `node` is of this library; `groups` points to `count` texts; `past` is to be read, and its
// position null or a text; `queue` is null or to be read; `subscription` may be written to.
qsm_code qsm_subscribe_past(const qsm_node *node,
                            const char *const *groups,
                            size_t count,
                            const qsm_past *past,
                            const qsm_queue *queue,
                            qsm_subscription **subscription);

// Position behind all that `qsm_poll` has lent, to go on from in another process:
// to be asked for when the last batch is worked off. Returns its length in bytes, without the nul;
// writes as much of it as `size` bytes hold, and a nul. 0 without a past.
//
// Requires:
// `subscription` is null or of this library; `place` points to `size` bytes, or `size` is 0.
size_t qsm_position(const qsm_subscription *subscription, char *place, size_t size);

// As `qsm_position`, for who reads by `qsm_fill`: but for so many items of its last call, the last
// ones.
//
// Requires:
// As of `qsm_position`.
size_t qsm_position_before(const qsm_subscription *subscription,
                           size_t unread,
                           char *place,
                           size_t size);

// Tells whether a text is a position; otherwise its code is 1703.
//
// Requires:
// `position` is a text.
qsm_code qsm_check_position(const char *position);

// Enters groups, by name, and keeps their last messages for those who join later, until it is given
// up. Without bounds (null) they are the defaults.
//
// Requires:
// `node` is of this library; `groups` points to `count` texts; `bounds` is null or to be read;
// `keeper` may be written to.
qsm_code qsm_keep(const qsm_node *node,
                  const char *const *groups,
                  size_t count,
                  const qsm_bounds *bounds,
                  qsm_keeper **keeper);

// Tells what a keeper has. An error says that it keeps no more, and why.
//
// Requires:
// `keeper` is of this library; `kept` may be written to.
qsm_code qsm_kept(const qsm_keeper *keeper, qsm_keeping *kept);

// Leaves the groups, and forgets what was kept. It waits a tenth of a second at most.
//
// Requires:
// `keeper` is null, or of this library and not used any more.
void qsm_keeper_free(qsm_keeper *keeper);

// Makes a publisher to a group.
//
// Requires:
// `node` is of this library; `group` is a text; `publisher` may be written to.
qsm_code qsm_publisher_new(const qsm_node *node, const char *group, qsm_publisher **publisher);

// As `qsm_publisher_new`, with limits to the wait of its messages for others. An attached node
// refuses them: its engine packs the messages of all processes.
//
// Requires:
// As of `qsm_publisher_new`; `batching` is to be read.
qsm_code qsm_publisher_batching(const qsm_node *node,
                                const char *group,
                                const qsm_batching *batching,
                                qsm_publisher **publisher);

// Waits until the group has so many receivers beside this node, at most so many milliseconds
// (negative: for ever).
//
// Requires:
// `publisher` is of this library.
qsm_code qsm_wait_for_members(const qsm_publisher *publisher, uint32_t count, int64_t milliseconds);

// The number of receivers of the group known now, beside this node.
//
// Requires:
// `publisher` is of this library; `members` may be written to.
qsm_code qsm_members(const qsm_publisher *publisher, uint32_t *members);

// Sends a message, which is copied; waits while the queue is full.
//
// Requires:
// `publisher` is of this library; `data` points to `length` bytes.
qsm_code qsm_send(const qsm_publisher *publisher, const void *data, size_t length);

// As `qsm_send`, if there is room; otherwise its code is 1302.
//
// Requires:
// As of `qsm_send`.
qsm_code qsm_try_send(const qsm_publisher *publisher, const void *data, size_t length);

// As `qsm_send`, and waits so many milliseconds for room at most (negative: for ever); otherwise its
// code is 1302.
//
// Requires:
// As of `qsm_send`.
qsm_code qsm_send_within(const qsm_publisher *publisher,
                         const void *data,
                         size_t length,
                         int64_t milliseconds);

// Messages that wait to be sent.
//
// Requires:
// `publisher` is null or of this library.
uint64_t qsm_queued_to_send(const qsm_publisher *publisher);

// Sends messages one by one, as `qsm_send`. `sent`, if not null, says how many of them were taken,
// also after an error.
//
// Requires:
// `publisher` is of this library; `messages` points to `count` vectors, each to bytes of its length;
// `sent` is null or may be written to.
qsm_code qsm_send_batch(const qsm_publisher *publisher,
                        const struct iovec *messages,
                        size_t count,
                        size_t *sent);

// Gives up the handle; what it accepted is sent all the same.
//
// Requires:
// `publisher` is null, or of this library and not used any more.
void qsm_publisher_free(qsm_publisher *publisher);

// Makes settings that are all defaults.
//
// Requires:
// `settings` may be written to.
qsm_code qsm_settings_new(qsm_settings **settings);

// Sets one, by its name and as text; an unknown name is answered by the list of all.
//
// Requires:
// `settings` is of this library; `name` and `value` are texts.
qsm_code qsm_set(qsm_settings *settings, const char *name, const char *value);

// Name of a setting, by its place in the list of all, from 0: the length of the name in bytes, without
// the nul; writes as much of it as `size` bytes hold, and a nul. 0 behind the last.
//
// Requires:
// `place` points to `size` bytes, or `size` is 0.
size_t qsm_setting_name(size_t number,
                        char *place,
                        size_t size);

// Meaning of a setting, with unit and default, as `qsm_setting_name` its name.
//
// Requires:
// As of `qsm_setting_name`.
size_t qsm_setting_meaning(size_t number, char *place, size_t size);

// Ends their life; nodes that were started with them go on.
//
// Requires:
// `settings` is null, or of this library and not used any more.
void qsm_settings_free(qsm_settings *settings);

// Subscribes to groups, by name or by patterns such as `prices/*`. Without limits (null) the queue
// has the defaults.
//
// Requires:
// `node` is of this library; `groups` points to `count` texts; `queue` is null or to be read;
// `subscription` may be written to.
qsm_code qsm_subscribe(const qsm_node *node,
                       const char *const *groups,
                       size_t count,
                       const qsm_queue *queue,
                       qsm_subscription **subscription);

// Takes what has come, at most `most` items. If there is nothing, waits for the first: so many
// milliseconds, or for ever if negative; then the batch is empty. A batch that is not empty is to
// be released. An error says that no more will come.
//
// Requires:
// `subscription` is of this library; `batch` may be written to.
qsm_code qsm_poll(const qsm_subscription *subscription,
                  size_t most,
                  int64_t milliseconds,
                  qsm_batch *batch);

// Gives a batch back, from any thread; it is empty then. Of an empty one, nothing.
//
// Requires:
// `batch` is null, or was filled by `qsm_poll` and its items are not used any more.
void qsm_release(qsm_batch *batch);

// As `qsm_poll`, with copies: writes what has come to the program's buffer, one frame behind the
// other, for runtimes that follow no pointers. Bytes written are `used`; if the first frame does not
// fit, 0, and `needed` is its length. A subscription is read by this call or by `qsm_poll`, not by
// both.
//
// A frame is a multiple of 8 bytes, little-endian: its length (4 bytes), its kind, as
// `qsm_kind` has it, with the cause above the lowest byte (4; causes: 0 gone, 1 excluded, 2 overdue,
// 3 expired, 4 no keeper, 5 held), the number of the group's name, -1 without one (4), the length of
// the content (4), sender, incarnation, number, last (8 each), and the content: a message's bytes, or
// a sentence of a notice. Kind 0 tells the name of a group, as its content, before the first frame
// with its number; number 0 begins the list anew. Times are nanoseconds here.
//
// Requires:
// `subscription` is of this library; `buffer` points to `size` bytes; `used` and `needed` may be
// written to.
qsm_code qsm_fill(const qsm_subscription *subscription,
                  void *buffer,
                  size_t size,
                  size_t most,
                  int64_t milliseconds,
                  size_t *used,
                  size_t *needed);

// Messages that wait in the queue.
//
// Requires:
// `subscription` is null or of this library.
uint64_t qsm_queued_to_read(const qsm_subscription *subscription);

// A descriptor for `poll` or `epoll`: readable while `qsm_poll` has something to take, or the end
// to tell; with a past (`qsm_subscribe_past`) now and then without, so that it is called while
// keepers are asked. It is the library's: it is not to be read from nor closed, and lasts as long
// as the subscription. -1 if the process has no descriptor left.
//
// Requires:
// `subscription` is of this library.
int qsm_subscription_fd(const qsm_subscription *subscription);

// Messages dropped so far because the queue was full.
//
// Requires:
// `subscription` is null or of this library.
uint64_t qsm_dropped(const qsm_subscription *subscription);

// Leaves the groups and gives up the handle. Batches that it has lent stay until they are released.
//
// Requires:
// `subscription` is null, or of this library and not used any more.
void qsm_subscription_free(qsm_subscription *subscription);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QSM_H */

// Codes of this interface, then those of the library.
#define QSM_OK 0 // Done.
#define QSM_NULL 1701 // A pointer is null. Give what the call's description asks for.
#define QSM_TEXT 1702 // A text is not UTF-8. Give it in that encoding.
#define QSM_SETTING 1703 // There is no such setting or value. Do as the text says.
#define QSM_PANICKED 1704 // The library has a fault. Report it with the text.
#define QSM_START_CONFIG 1001 // The protocol's configuration cannot work.
#define QSM_START_CORES 1002 // A node cannot have so many core threads.
#define QSM_START_CPUS 1003 // There are more or fewer CPUs to pin to than core threads.
#define QSM_START_FAMILIES 1004 // An address is of the other family than the interface.
#define QSM_START_INTERFACE 1005 // No network interface could be chosen.
#define QSM_START_NAME 1006 // The name of a node or a cluster is empty, too long, or not printable.
#define QSM_START_PORT 1007 // The sockets could not be opened.
#define QSM_START_PORT_IN_USE 1008 // Another process has the port.
#define QSM_START_SERVICE 1009 // The membership service's configuration cannot work.
#define QSM_START_SYSTEM 1010 // The operating system refused a thread.
#define QSM_START_THREAD 1011 // A core thread cannot run as it should.
#define QSM_START_TOO_MANY_INTERFACES 1012 // There are more interfaces than two.
#define QSM_START_UNICAST_PORTS 1013 // There are too few port numbers after the first.
#define QSM_START_METRICS 1014 // The metrics cannot be served at the address.
#define QSM_START_NO_SERVICE 1015 // A node without multicast has not been told where the membership service is.
#define QSM_START_RECORDING 1016 // The file that the node was to be recorded to cannot be made.
#define QSM_START_IDENTITY 1017 // The identity of a node or a service cannot be used.
#define QSM_START_ORIGIN 1018 // Hints demand proof of origin in a cluster that takes no tokens.
#define QSM_CLOSED_ENGINE_GONE 1101 // The shared engine has ended, or has cut this process off.
#define QSM_CLOSED_IO 1102 // The operating system failed in a way that does not pass.
#define QSM_CLOSED_PANICKED 1103 // An upcall, a feed or the node itself panicked.
#define QSM_CLOSED_SHUT_DOWN 1104 // The node was shut down.
#define QSM_CLOSED_REFUSED 1105 // The membership service does not let the node in, or has shut it out.
#define QSM_REQUEST_ON_CORE_THREAD 1201 // A call that waits for the core thread was made on it.
#define QSM_REQUEST_REFUSED 1202 // The membership service, or the node, refused.
#define QSM_REQUEST_TIMEOUT 1203 // It took too long.
#define QSM_REQUEST_UNCONFIRMED 1204 // The node was excluded, and messages that it had accepted before may be missing at receivers.
#define QSM_REQUEST_NOT_ATTACHED 1205 // An attached node cannot do this, because the node is in another process.
#define QSM_REQUEST_PATTERN 1206 // A pattern such as `prices/*` was used where groups must be named.
#define QSM_REQUEST_TOO_FEW_RECEIVERS 1207 // The group had too few receivers until the time was over.
#define QSM_REQUEST_BAD_PATTERN 1208 // A star stands beside other characters in a group's name or pattern.
#define QSM_SEND_TOO_LARGE 1301 // The message is longer than the limit.
#define QSM_SEND_FULL 1302 // The publisher's queue is full.
#define QSM_SEND_ON_CORE_THREAD 1303 // The queue is full, and the core thread would wait for itself.
#define QSM_RECV_OVERFLOW 1401 // The subscription ended because its queue was full.
#define QSM_RECV_MISSING 1402 // Something is missing before the next message.
#define QSM_SHARE_IN_USE 1501 // Another process shares its node at the path.
#define QSM_SHARE_IO 1502 // The path cannot be listened at, or a thread cannot be started.
#define QSM_SHARE_NOT_A_SOCKET 1503 // There is something at the path that is no socket.
#define QSM_SHARE_RING_BYTES 1504 // A ring cannot have that size.
#define QSM_SHARE_ATTACHED 1505 // An attached node cannot be shared.
#define QSM_ATTACH_IO 1601 // The path or the memory of the engine cannot be opened.
#define QSM_ATTACH_NO_ENGINE 1602 // There is no engine at the path.
#define QSM_ATTACH_PERMISSION 1603 // This user may not open the path.
#define QSM_ATTACH_REFUSED 1604 // The engine refuses.
#define QSM_ATTACH_SILENT 1605 // Nobody answers at the path.
#define QSM_ATTACH_VERSION 1606 // The engine is of another version.
#define QSM_REPLICA_NOT_LIVE 1801 // The replica has no state that follows, or none yet.
#define QSM_REPLICA_BIND 1802 // The replica could not get the state of the others, and has ended.
#define QSM_REPLICA_OTHER 1803 // The group has a state of another kind, or another order of updates.
#define QSM_OBJECT_FULL 1804 // The object would become larger than its bound.
#define QSM_OBJECT_KEY 1805 // A key is longer than allowed.
#define QSM_OBJECT_PLACE 1806 // A place is beyond the end of the text.
#define QSM_OBJECT_CLOCK 1807 // Somebody wrote at a time that nobody can be after.
#define QSM_OBJECT_ADDRESS 1808 // The text is no address of the object that is asked for.
