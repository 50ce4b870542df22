//! Quicksilver for C and C++, and for whatever calls C.
//!
//! The header `include/qsm.h` is made from this crate. Calls return a [`Code`]: 0, or the number of
//! the error, whose text [`qsm_error`] has. No thread of the library calls the program: it takes
//! what has come by [`qsm_poll`], many messages at a call, and may wait in its own loop for the
//! descriptor of [`qsm_subscription_fd`].
//!
//! A batch lends its messages until [`qsm_release`]; nothing else of a handle is lent for longer
//! than the next call with it. Handles may go to other threads; one handle is used by one thread at a
//! time, but for nodes and publishers, which any number may use.

mod about;
mod error;
mod event;
mod guard;
mod item;
mod log;
mod map;
mod node;
mod object;
mod past;
mod publisher;
mod settings;
mod subscription;
mod text;

pub use about::{ABI, qsm_abi, qsm_error, qsm_meaning, qsm_version};
pub use error::{Code, Own};
pub use event::{
    EventKind, QsmEvent, QsmEvents, qsm_event_name, qsm_events_free, qsm_events_new, qsm_next_event,
};
pub use item::{ItemKind, QsmCause, QsmItem};
pub use log::{
    LineKind, QsmLine, QsmLineLoan, QsmLines, QsmLog, QsmLogBounds, qsm_lines_release,
    qsm_log_append, qsm_log_close, qsm_log_fd, qsm_log_length, qsm_log_open, qsm_log_poll,
    qsm_log_snapshot, qsm_log_stats, qsm_log_wait_live,
};
pub use map::{
    EntryKind, QsmEntries, QsmEntry, QsmEntryLoan, QsmMap, QsmMapBounds, qsm_entries_release,
    qsm_map_close, qsm_map_fd, qsm_map_get, qsm_map_length, qsm_map_open, qsm_map_poll,
    qsm_map_put, qsm_map_remove, qsm_map_snapshot, qsm_map_stats, qsm_map_wait_live,
};
pub use node::{
    QsmFlushed, QsmNode, qsm_attach, qsm_closed, qsm_flush, qsm_lacking, qsm_node_free,
    qsm_node_id, qsm_shutdown, qsm_start, qsm_wait_admitted,
};
pub use past::{
    QsmBounds, QsmKeeper, QsmKeeping, QsmPast, qsm_check_position, qsm_keep, qsm_keeper_free,
    qsm_kept, qsm_position, qsm_position_before, qsm_subscribe_past,
};
pub use publisher::{
    QsmBatching, QsmPublisher, qsm_members, qsm_publisher_batching, qsm_publisher_free,
    qsm_publisher_new, qsm_queued_to_send, qsm_send, qsm_send_batch, qsm_send_within, qsm_try_send,
    qsm_wait_for_members,
};
pub use settings::{
    QsmSettings, qsm_set, qsm_setting_meaning, qsm_setting_name, qsm_settings_free,
    qsm_settings_new,
};
pub use subscription::{
    QsmBatch, QsmDelivery, QsmOverflow, QsmQueue, QsmSubscription, qsm_dropped, qsm_fill, qsm_poll,
    qsm_queued_to_read, qsm_release, qsm_subscribe, qsm_subscription_fd, qsm_subscription_free,
};
