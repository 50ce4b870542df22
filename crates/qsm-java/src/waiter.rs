//! Waiting for many subscriptions at once, as `Native` has it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use jni::EnvUnowned;
use jni::objects::{JClass, JLongArray};
use jni::sys::{jint, jlong};
use qsm_binding::Inlet;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::call::{Failure, call, limit};
use crate::handle::Handle;

/// Subscriptions that a call of [`Java_io_quicksilver_qsm_Native_await`] names at most.
const MOST: usize = 64;

/// Subscriptions that are waited for, each by a number of Java's.
#[derive(Debug)]
pub(crate) struct Waiter(OwnedFd);

fn failure(error: Errno) -> Failure {
    Failure::system(&io::Error::from(error))
}

/// Makes one that waits for nothing.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_waiter<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
) -> jlong {
    call(env, |_| {
        let made = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failure)?;
        Ok::<_, Failure>(Handle::give(Waiter(made)))
    })
}

/// Waits for a subscription from now on, until it has something once. A subscription that is given
/// up is not waited for any more.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_watch<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    waiter: Handle<Waiter>,
    subscription: Handle<Inlet>,
    number: jlong,
) {
    call(env, |_| {
        let Waiter(waiter) = waiter.get()?;
        let descriptor = subscription.get()?.descriptor();
        let descriptor = descriptor.map_err(|error| Failure::system(&error))?;
        let number = epoll::EventData::new_u64(number as u64);
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::modify(waiter, descriptor, number, once) {
            Err(Errno::NOENT) => epoll::add(waiter, descriptor, number, once).map_err(failure),
            done => done.map_err(failure),
        }
    });
}

/// Numbers of subscriptions that have something, written to the array; how many.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_await<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    waiter: Handle<Waiter>,
    numbers: JLongArray<'local>,
    nanoseconds: jlong,
) -> jint {
    call(env, |env| {
        let Waiter(waiter) = waiter.get()?;
        let most = numbers.len(env)?.min(MOST);
        let limit = Timespec::try_from(limit(nanoseconds)).map_err(|_| failure(Errno::INVAL))?;
        let mut place = [const { MaybeUninit::uninit() }; MOST];
        let found = match epoll::wait(waiter, &mut place[..most], Some(&limit)) {
            Ok((found, _)) => found,
            Err(Errno::INTR) => return Ok(0),
            Err(error) => return Err(failure(error)),
        };
        let mut ready = [0; MOST];
        for (place, event) in ready.iter_mut().zip(&*found) {
            *place = event.data.u64() as jlong;
        }
        let count = found.len();
        numbers.set_region(env, 0, &ready[..count])?;
        Ok(count as jint)
    })
}

/// Waits for nothing any more.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_quicksilver_qsm_Native_freeWaiter<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    waiter: Handle<Waiter>,
) {
    call(env, |_| {
        waiter.free();
        Ok::<_, Failure>(())
    });
}
